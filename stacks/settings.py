"""Every choice a user makes, as one frozen object, checked before any construct exists.

`cdk.json` holds named environments under the context key `environments`; `load_settings` picks one and
refuses what cannot be deployed. A refusal names the field, the value, the rule and the remedy.
"""

import json
from collections.abc import Mapping
from enum import StrEnum
from ipaddress import IPv4Network
from pathlib import Path
from typing import Annotated, Any, Self

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError, model_validator

from stacks.instance_types import INSTANCE_TYPES, InstanceType

CDK_JSON = Path(__file__).parent.parent / "cdk.json"
DEFAULT_ENVIRONMENT = "walkthrough"

Name = Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9]*(-[a-z0-9]+)*$", max_length=30)]
IamPrincipalArn = Annotated[str, StringConstraints(pattern=r"^arn:aws[a-z-]*:iam::\d{12}:(role|user)/.+$")]
AvailabilityZoneId = Annotated[str, StringConstraints(pattern=r"^[a-z]{3,4}\d-az\d$")]


class SettingsError(Exception):
    """The settings cannot be deployed; the message names field, value, rule and remedy, a line each."""


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


class GrafanaAuthentication(StrEnum):
    """How people sign in to Managed Grafana; `none` deploys everything but the workspace."""

    NONE = "none"
    IDENTITY_CENTER = "identity-center"
    SAML = "saml"


class Access(Section):
    admin_principal_arns: list[IamPrincipalArn] = Field(min_length=1)
    """IAM roles or users that administer the Kubernetes cluster."""
    researcher_principal_arns: list[IamPrincipalArn] = []
    """IAM roles or users that run Ray jobs in the workload's namespace."""


class Network(Section):
    vpc_cidr: str = "10.0.0.0/16"
    control_plane_zone_ids: list[AvailabilityZoneId] = Field(min_length=2)
    """Zones of the EKS control plane's subnets; HyperPod and FSx use only `hyperpod_zone_id`."""
    hyperpod_zone_id: AvailabilityZoneId
    """The one zone of all nodes and of the file system: EFA traffic cannot leave a zone."""
    interface_endpoints: bool = False
    """VPC endpoints for the AWS APIs that nodes call, for networks without a way out."""


class Kubernetes(Section):
    version: str = "1.34"
    endpoint_access: EndpointAccess = EndpointAccess.PUBLIC_AND_PRIVATE
    public_access_cidrs: list[str] = []
    """With public access: the networks from which people reach the API server."""


class InstanceGroup(Section):
    name: Name
    instance_type: str
    instance_count: int = Field(ge=0, le=6758)
    threads_per_core: int = Field(default=2, ge=1, le=2)
    ebs_volume_gib: int = Field(default=500, ge=1, le=16384)
    deep_health_checks: bool = False
    capacity: Capacity = Capacity.ON_DEMAND
    training_plan_arn: str | None = None
    labels: dict[str, str] = {}

    @property
    def type(self) -> InstanceType:
        return INSTANCE_TYPES[self.instance_type]


class Storage(Section):
    capacity_gib: int = 2400
    throughput_mbps_per_tib: int = 250
    removal: Removal = Removal.DESTROY


class Image(Section):
    base_image: str
    """The image that the training image starts from, by digest."""


class Observability(Section):
    grafana_authentication: GrafanaAuthentication = GrafanaAuthentication.NONE
    addon_version: str | None = None
    """Version of the HyperPod observability add-on; none means EKS's default for the cluster."""


class Ray(Section):
    namespace: Name = "ray"
    head_group: str
    """Instance group of the Ray head."""
    worker_group: str
    """Instance group of the Ray workers: one worker a node."""


class Job(Section):
    run_id: Name
    """Names the run's folder on the shared file system; the same id resumes the run."""
    profile: str
    """One of training/profiles/."""
    deadline_hours: int = Field(default=48, ge=1)
    retries: int = Field(default=3, ge=0)


class Studio(Section):
    enabled: bool = False


class Settings(Section):
    """One environment of cdk.json."""

    name: Name
    """Names the deployment: HyperPod cluster, stack prefix, and the tag that finds everything of it."""
    region: str
    access: Access
    network: Network
    kubernetes: Kubernetes = Kubernetes()
    instance_groups: list[InstanceGroup] = Field(min_length=1)
    storage: Storage = Storage()
    image: Image
    observability: Observability = Observability()
    ray: Ray
    job: Job
    studio: Studio = Studio()
    removal: Removal = Removal.DESTROY
    """For logs, images, keys and buckets; the file system has a setting of its own."""
