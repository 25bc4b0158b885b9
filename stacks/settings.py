"""Every choice a user makes, as one frozen object, checked before any construct exists.

`cdk.json` holds named environments under the context key `environments`; `load_settings` picks one and
refuses what cannot be deployed. A refusal names the field, the value, the rule and the remedy, a line each
(`stacks.faults`). What one field allows stands here; what fields demand of each other stands in
`stacks.rules`. The docstring under a field is its documentation and the remedy that a refusal prints.
"""

import json
from collections.abc import Mapping
from enum import StrEnum
from functools import cached_property
from ipaddress import IPv4Network
from pathlib import Path
from typing import Annotated, Any, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    StringConstraints,
    ValidationError,
    model_validator,
)

from stacks.addressing import MAX_ZONES, SubnetPlan, needed_addresses, plan_subnets
from stacks.faults import Fault, SettingsError, faults_of
from stacks.instance_types import INSTANCE_TYPES, InstanceType
from stacks.pins import OPEN_COMMIT
from stacks.rules import broken_rules

CDK_JSON = Path(__file__).parent.parent / "cdk.json"
DEFAULT_ENVIRONMENT = "walkthrough"
METADATA_TYPE = "hyperpod-rl:settings"
"""Under which a cloud assembly records the settings that it was made from, for a review to price them."""


def _known_instance_type(name: str) -> str:
    if name not in INSTANCE_TYPES:
        raise ValueError("is not in stacks/instance_types.csv")
    return name


Name = Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9]*(-[a-z0-9]+)*$", max_length=30)]
Region = Annotated[str, StringConstraints(pattern=r"^[a-z]{2}(-[a-z]+)+-\d$")]
IamPrincipalArn = Annotated[str, StringConstraints(pattern=r"^arn:aws[a-z-]*:iam::\d{12}:(role|user)/.+$")]
TrainingPlanArn = Annotated[
    str, StringConstraints(pattern=r"^arn:aws[a-z-]*:sagemaker:[a-z0-9-]+:\d{12}:training-plan/[a-z0-9-]+$")
]
SecretArn = Annotated[
    str, StringConstraints(pattern=r"^arn:aws[a-z-]*:secretsmanager:[a-z0-9-]+:\d{12}:secret:[\w/+=.@-]+$")
]
AvailabilityZoneId = Annotated[str, StringConstraints(pattern=r"^[a-z]{3,4}\d-az\d$")]
KnownInstanceType = Annotated[str, AfterValidator(_known_instance_type)]
HttpsUrl = Annotated[str, StringConstraints(pattern=r"^https://[^\s/]+(/\S*)?$")]
LabelKey = Annotated[
    str, StringConstraints(pattern=r"^([a-z0-9.-]+/)?[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?$")
]
Email = Annotated[str, StringConstraints(pattern=r"^[^@\s]+@[^@\s]+\.[^@\s]+$")]
IdentityCenterId = Annotated[
    str, StringConstraints(pattern=r"^([0-9a-f]{10}-)?[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$")
]
AddonKey = Annotated[str, StringConstraints(pattern=r"^[a-z][A-Za-z]+$")]
LabelValue = Annotated[str, StringConstraints(pattern=r"^([A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?)?$")]


class Section(BaseModel):
    """A group of settings: unknown keys are refused, values are not coerced, nothing changes afterwards."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, use_attribute_docstrings=True)


class Removal(StrEnum):
    """What `cdk destroy` does with the things that hold data."""

    DESTROY = "destroy"
    RETAIN = "retain"


class EndpointAccess(StrEnum):
    """Who reaches the Kubernetes API server."""

    PRIVATE = "private"
    PUBLIC_AND_PRIVATE = "public-and-private"


class Capacity(StrEnum):
    """How instances of a group are bought."""

    ON_DEMAND = "on-demand"
    SPOT = "spot"


class TaintEffect(StrEnum):
    """What a taint does to pods that do not tolerate it."""

    NO_SCHEDULE = "NoSchedule"
    PREFER_NO_SCHEDULE = "PreferNoSchedule"
    NO_EXECUTE = "NoExecute"


class GrafanaAuthentication(StrEnum):
    """How people sign in to Managed Grafana; `none` deploys everything but the workspace."""

    NONE = "none"
    IDENTITY_CENTER = "identity-center"
    SAML = "saml"


class MetricsLevel(StrEnum):
    """How much of a kind of metrics the observability add-on collects."""

    BASIC = "BASIC"
    ADVANCED = "ADVANCED"
    DISABLED = "DISABLED"


class Access(Section):
    """Who may do what on the Kubernetes cluster."""

    admin_principal_arns: tuple[IamPrincipalArn, ...] = Field(min_length=1)
    """Give the ARN of at least one IAM role or user that administers the Kubernetes cluster."""
    researcher_principal_arns: tuple[IamPrincipalArn, ...] = ()
    """Give ARNs of IAM roles or users that run Ray jobs in the workload's namespace."""


class Network(Section):
    """Addresses and zones."""

    vpc_cidr: IPv4Network = IPv4Network("10.0.0.0/16")
    """Give a private IPv4 network between /16 and /22 without host bits, as "10.0.0.0/16"."""
    control_plane_zone_ids: tuple[AvailabilityZoneId, ...] = Field(min_length=2, max_length=MAX_ZONES)
    """Give 2 to 4 zone ids (as "use2-az1") for the EKS control plane; add later ones at the end."""
    hyperpod_zone_id: AvailabilityZoneId
    """Give the id of the one zone of all nodes and of the file system: EFA traffic cannot leave a zone."""
    growth_factor: int = Field(default=4, ge=1, le=64)
    """Give how many times today's nodes the node subnet must hold: a subnet never grows (1 to 64)."""
    interface_endpoints: bool = False
    """Say true for VPC endpoints of the AWS APIs that nodes call, for networks without a way out."""


class Kubernetes(Section):
    """The EKS cluster."""

    version: str = "1.34"
    """Give a version that `stacks/addon_versions.py` lists: HyperPod accepts fewer versions than EKS."""
    endpoint_access: EndpointAccess = EndpointAccess.PUBLIC_AND_PRIVATE
    """Say "private" or "public-and-private"."""
    public_access_cidrs: tuple[IPv4Network, ...] = ()
    """Give the networks from which people reach the API server when its access is public."""

    @property
    def is_public(self) -> bool:
        return self.endpoint_access is EndpointAccess.PUBLIC_AND_PRIVATE


class Taint(Section):
    """A taint that the nodes of a group carry."""

    key: LabelKey
    """Give a Kubernetes label key."""
    value: LabelValue = ""
    """Give a Kubernetes label value."""
    effect: TaintEffect = TaintEffect.NO_SCHEDULE
    """Say "NoSchedule", "PreferNoSchedule" or "NoExecute"."""


class InstanceGroup(Section):
    """Instances of one type that HyperPod creates, checks and replaces together."""

    name: Name
    """Give a name of lower-case letters, digits and single hyphens, at most 30 characters."""
    instance_type: KnownInstanceType
    """Use a type of stacks/instance_types.csv, or add its row there."""
    instance_count: int = Field(ge=0, le=6758)
    """Give the number of nodes, 0 to 6758."""
    threads_per_core: int = Field(default=2, ge=1, le=2)
    """Say 1 or 2; with 1 a node offers half of its vCPUs."""
    ebs_volume_gib: int = Field(default=500, ge=100, le=16384)
    """Give 100 to 16384 GiB: container images and logs lie there."""
    efa: bool | None = None
    """Say true or false to demand or forbid EFA; left out, EFA is used where the type has it."""
    deep_health_checks: bool = False
    """Say true to stress-test GPUs and EFA before a node takes work; adds tens of minutes and more."""
    capacity: Capacity = Capacity.ON_DEMAND
    """Say "on-demand" or "spot"."""
    training_plan_arn: TrainingPlanArn | None = None
    """Give the ARN of a SageMaker training plan whose reserved capacity this group uses."""
    training_plan_instances: int | None = Field(default=None, ge=1)
    """Give how many instances the training plan reserves, so that the count is checked against it."""
    labels: dict[LabelKey, LabelValue] = Field(default={}, max_length=50)
    """Give at most 50 Kubernetes labels."""
    taints: tuple[Taint, ...] = Field(default=(), max_length=50)
    """Give at most 50 taints, as {"key": ..., "value": ..., "effect": "NoSchedule"}."""

    @property
    def type(self) -> InstanceType:
        return INSTANCE_TYPES[self.instance_type]

    @property
    def is_spot(self) -> bool:
        return self.capacity is Capacity.SPOT

    @property
    def efa_interfaces(self) -> int:
        """EFA interfaces that one node offers to pods."""
        return 0 if self.efa is False else self.type.efa_interfaces

    @property
    def vcpus(self) -> int:
        """What one node shows to Kubernetes."""
        return self.type.vcpus // 2 * self.threads_per_core


class Storage(Section):
    """The shared file system (FSx for Lustre, PERSISTENT_2) and the artifact bucket."""

    capacity_gib: int = 2400
    """Give 1200, 2400 or a larger multiple of 2400 GiB."""
    throughput_mbps_per_tib: int = 250
    """Give 125, 250, 500 or 1000 MB/s per TiB."""
    backup_retention_days: int = Field(default=0, ge=0, le=90)
    """Give 0 (no automatic backups) to 90 days."""
    export_runs_to_s3: bool = False
    """Say true to export the run folders to the artifact bucket."""
    removal: Removal = Removal.DESTROY
    """Say "destroy" or "retain"; a retained file system keeps its subnet and VPC alive too."""


class Artifact(Section):
    """A model or data set that is put on the shared file system before anything trains."""

    source: Annotated[
        str,
        StringConstraints(
            pattern=r"^(hf://(datasets/)?[\w.-]+/[\w.-]+@[0-9a-f]{40}(/[\w./-]+)?|s3://[a-z0-9.-]{3,63}/[\w./-]+)$"
        ),
    ]
    """Give s3://bucket/prefix or hf://owner/name@commit/folder with all 40 digits; `python -m ops pin` looks
    a commit of zeros up."""
    folder: Annotated[str, StringConstraints(pattern=r"^[\w-][\w.-]*(/[\w-][\w.-]*)*$")]
    """Give the folder under the shared mount, as "models/visgym/mixed_qwen3vl"."""


class Staging(Section):
    """What lies on the shared file system before the first run."""

    artifacts: tuple[Artifact, ...] = (
        Artifact(
            source=f"hf://VisGym/visgym_model@{OPEN_COMMIT}/mixed_qwen3vl",
            folder="models/visgym/mixed_qwen3vl",
        ),
    )
    """Give a list of {"source": ..., "folder": ...}; an empty list stages nothing."""
    hub_token_secret_arn: SecretArn | None = None
    """Give the ARN of the Secrets Manager secret whose text is a Hugging Face token, for private sources."""


class Image(Section):
    """The training image."""

    base_image: Annotated[str, StringConstraints(pattern=r"^\S+@sha256:[0-9a-f]{64}$")]
    """Give the image that the training image starts from, by digest: name@sha256:...; `python -m ops pin`
    looks a digest of zeros up."""


class Observability(Section):
    """Metrics, dashboards and alerts."""

    grafana_authentication: GrafanaAuthentication = GrafanaAuthentication.NONE
    """Say "identity-center", "saml" or "none"; none deploys everything but the Grafana workspace."""
    addon_version: str | None = None
    """Give a version of the HyperPod observability add-on; left out, EKS's default for the cluster."""
    metrics: dict[AddonKey, MetricsLevel] = {
        "acceleratedComputeMetrics": MetricsLevel.ADVANCED,
        "networkMetrics": MetricsLevel.BASIC,
        "nodeMetrics": MetricsLevel.BASIC,
        "trainingMetrics": MetricsLevel.BASIC,
    }
    """Give "BASIC", "ADVANCED" or "DISABLED" per key of metricsProvider in the add-on's own schema; what is
    left out has the add-on's default. The add-on refuses keys that its version does not know, so read them
    (the one for Ray's metrics too) with `aws eks describe-addon-configuration`."""

    budget_usd: float = Field(default=2000.0, gt=0)
    """Give the dollars after which an alert tells that a run costs more than was meant."""
    alert_emails: tuple[Email, ...] = ()
    """Give e-mail addresses that get the alerts; each confirms its subscription once."""
    grafana_admin_group_ids: tuple[IdentityCenterId, ...] = ()
    """Give ids of Identity Center groups that administer Grafana."""
    grafana_viewer_group_ids: tuple[IdentityCenterId, ...] = ()
    """Give ids of Identity Center groups that look at Grafana."""

    @property
    def wants_grafana(self) -> bool:
        return self.grafana_authentication is not GrafanaAuthentication.NONE


class ActiveWorkload(StrEnum):
    """Which Ray workload holds the nodes; the other one is there, suspended."""

    JOB = "job"
    SESSION = "session"


class RayDashboard(Section):
    """Servers whose panels the Ray dashboard shows."""

    grafana_url: HttpsUrl
    """Give the https:// address of a Grafana that may be embedded."""
    prometheus_url: HttpsUrl
    """Give the https:// address of a Prometheus that answers without signed requests."""


class Ray(Section):
    """Where and how the Ray workload runs."""

    namespace: Name = "ray"
    """Give a Kubernetes namespace name."""
    head_group: str
    """Name the instance group of the Ray head."""
    worker_group: str
    """Name the instance group of the Ray workers: one worker a node."""
    active: ActiveWorkload = ActiveWorkload.JOB
    """Say "job" (the run brings its own cluster) or "session" (a cluster that stays, for iterating)."""
    queue: Name | None = None
    """Name the Kueue local queue when HyperPod task governance admits the workloads."""
    dashboard: RayDashboard | None = None
    """Give {"grafana_url": ..., "prometheus_url": ...} for panels in the Ray dashboard; left out, none."""


class Job(Section):
    """The training run that a deployment starts with."""

    run_id: Name
    """Give the name of the run's folder on the shared file system; the same id resumes the run."""
    profile: str
    """Name a file of training/profiles/."""
    deadline_hours: int = Field(default=48, ge=1)
    """Give the hours after which the job is ended, image pull and queueing included."""
    retries: int = Field(default=3, ge=0)
    """Give how many new attempts a failed job gets; each resumes from the newest checkpoint."""


class Studio(Section):
    """SageMaker Studio in front of the cluster."""

    enabled: bool = False
    """Say true to deploy Studio."""


class Settings(Section):
    """One environment of cdk.json."""

    name: Annotated[Name, StringConstraints(max_length=24)]
    """Name the deployment with at most 24 characters: it goes into a bucket's name, where 63 are allowed."""
    region: Region
    """Give the AWS region, as "us-east-2"."""
    access: Access
    """Say who may use the cluster: admin_principal_arns, researcher_principal_arns."""
    network: Network
    """Say where: control_plane_zone_ids, hyperpod_zone_id."""
    kubernetes: Kubernetes = Kubernetes()
    """Give a JSON object."""
    instance_groups: tuple[InstanceGroup, ...] = Field(min_length=1, max_length=20)
    """Give 1 to 20 instance groups, each with name, instance_type and instance_count."""
    node_timeout_minutes: int = Field(default=120, ge=15, le=660)
    """Give the minutes in which all nodes must run before a deploy fails with HyperPod's reasons (15-660)."""
    storage: Storage = Storage()
    """Give a JSON object."""
    staging: Staging = Staging()
    """Give a JSON object."""
    image: Image
    """Give the base image: {"base_image": "name@sha256:..."}."""
    observability: Observability = Observability()
    """Give a JSON object."""
    ray: Ray
    """Say which instance groups run Ray: head_group, worker_group."""
    job: Job
    """Describe the first run: run_id, profile."""
    studio: Studio = Studio()
    """Give a JSON object."""
    removal: Removal = Removal.DESTROY
    """Say "destroy" or "retain", for logs, images, keys and buckets; the file system has its own setting."""

    cost_ceiling_usd_per_hour: float | None = Field(default=None, gt=0)
    """Give the dollars per hour that the deployment may cost by estimate; preflight refuses more."""
    log_retention_days: int = 30
    """Give the days that logs are kept, as CloudWatch offers them: 7, 30, 90, 365..."""

    @model_validator(mode="after")
    def _deployable(self) -> Self:
        if faults := tuple(broken_rules(self)):
            raise SettingsError(faults)
        return self

    @cached_property
    def head_group(self) -> InstanceGroup:
        """The instance group of the Ray head."""
        return self.group(self.ray.head_group)

    @cached_property
    def worker_group(self) -> InstanceGroup:
        """The instance group of the Ray workers."""
        return self.group(self.ray.worker_group)

    @property
    def pod_addresses(self) -> int:
        """Addresses of the VPC that today's nodes and their pods may take."""
        return sum(group.instance_count * group.type.ipv4_per_interface for group in self.instance_groups)

    @property
    def subnet_plan(self) -> SubnetPlan:
        """How the VPC is divided. Raises ValueError with the numbers when a part does not fit."""
        network = self.network
        return plan_subnets(
            vpc=network.vpc_cidr,
            addresses=needed_addresses(pod_addresses=self.pod_addresses, growth_factor=network.growth_factor),
        )

    def group(self, name: str) -> InstanceGroup:
        return next(group for group in self.instance_groups if group.name == name)


def parse_settings(environment: Mapping[str, Any]) -> Settings:
    """Check one environment of cdk.json. Raises SettingsError with every fault found."""
    try:
        return Settings.model_validate_json(json.dumps(environment))
    except ValidationError as error:
        raise SettingsError(faults_of(error, Settings)) from error


def _unreadable(path: Path, error: Exception) -> Fault:
    return Fault(
        field=path.name,
        value=f"{type(error).__name__}: {error}",
        rule="must be a JSON file with an object at context.environments",
        remedy="Compare with the repository's own file.",
    )


def environments_of(path: Path = CDK_JSON) -> dict[str, dict[str, Any]]:
    """The named environments of a cdk.json, unchecked. Raises SettingsError when there are none to read."""
    try:
        environments: dict[str, dict[str, Any]] = json.loads(path.read_text(encoding="utf-8"))["context"][
            "environments"
        ]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise SettingsError([_unreadable(path, error)]) from error
    return environments


def load_settings(environment: str = DEFAULT_ENVIRONMENT, path: Path = CDK_JSON) -> Settings:
    """Read one environment of cdk.json. Raises SettingsError when it is missing or cannot be deployed."""
    environments = environments_of(path)
    if environment not in environments:
        raise SettingsError(
            [
                Fault(
                    field="environment",
                    value=environment,
                    rule="is not among the context.environments of cdk.json",
                    remedy=f"Use one of: {', '.join(sorted(environments))}.",
                )
            ]
        )
    return parse_settings(environments[environment])
