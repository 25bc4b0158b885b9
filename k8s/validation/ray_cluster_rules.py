"""The KubeRay operator's rules for a cluster, its own or the one inside a job.

From controllers/ray/utils/validation.go of KubeRay 1.7.0, with its default feature gates.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from k8s.operator import version_numbers
from k8s.validation.findings import Fault

type Json = dict[str, Any]

_TOKEN_AUTH_SINCE = (2, 52)
_K8S_TOKEN_AUTH_SINCE = (2, 55)
_AUTOSCALER_V2_BY_DEFAULT_SINCE = (2, 47)
_GATED_OFF = {
    "networkPolicy": "RayClusterNetworkPolicy",
    "tlsOptions": "RayClusterMTLS",
    "historyServerOptions": "RayClusterHistoryServer",
}
_REDIS_VARIABLES = {
    "RAY_REDIS_ADDRESS": "gcsFaultToleranceOptions.redisAddress",
    "REDIS_USERNAME": "gcsFaultToleranceOptions.redisUsername",
}
_AUTOSCALER_V2 = "RAY_enable_autoscaler_v2"


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """The head group or a worker group."""

    spec: Json
    path: str

    @property
    def params(self) -> Mapping[str, str]:
        params: Mapping[str, str] = self.spec.get("rayStartParams") or {}
        return params

    @property
    def containers(self) -> list[Json]:
        containers: list[Json] = self.spec["template"]["spec"]["containers"]
        return containers

    @property
    def environment(self) -> dict[str, str]:
        """Of the Ray container; a variable without a plain value reads as empty."""
        variables = self.containers[0].get("env") or []
        return {variable["name"]: variable.get("value", "") for variable in variables}

    @property
    def restart_policy(self) -> str | None:
        policy: str | None = self.spec["template"]["spec"].get("restartPolicy")
        return policy


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """A RayCluster's spec, its own or the one inside a job."""

    spec: Json
    path: str
    annotations: Mapping[str, str]
    """Of the object that holds the spec."""
    is_made_for_another: bool
    """The spec belongs to a job or a service."""

    @property
    def head(self) -> Group:
        return Group(spec=self.spec["headGroupSpec"], path=f"{self.path}.headGroupSpec")

    @property
    def workers(self) -> list[Group]:
        groups = self.spec.get("workerGroupSpecs") or []
        path = f"{self.path}.workerGroupSpecs"
        return [Group(spec=g, path=f"{path}[{i}]") for i, g in enumerate(groups)]

    @property
    def groups(self) -> list[Group]:
        return [self.head, *self.workers]

    @property
    def autoscales(self) -> bool:
        return bool(self.spec.get("enableInTreeAutoscaling"))

    @property
    def autoscaler_is_v2(self) -> bool:
        chosen = (self.spec.get("autoscalerOptions") or {}).get("version")
        by_default = version_numbers(self.spec.get("rayVersion", "")) >= _AUTOSCALER_V2_BY_DEFAULT_SINCE
        return self.autoscales and (chosen == "v2" if chosen else by_default)


def cluster_faults(cluster: Cluster) -> Iterator[Fault]:
    """What the operator would refuse in a cluster's spec."""
    for rule in _CLUSTER_RULES:
        yield from rule(cluster)
    for group in cluster.groups:
        for group_rule in _GROUP_RULES:
            yield from group_rule(group)


def never_restarts(group: Group, reason: str) -> Iterator[Fault]:
    """The group's pods must not be restarted in place."""
    if group.restart_policy not in {None, "Never"}:
        yield Fault(
            f"{group.path}.template.spec.restartPolicy",
            f"{group.restart_policy}, and {reason} it must be Never or unset",
            "Remove restartPolicy.",
        )


def _authentication(cluster: Cluster) -> Iterator[Fault]:
    options = cluster.spec.get("authOptions") or {}
    by_kubernetes = bool(options.get("enableK8sTokenAuth"))
    version, path = cluster.spec.get("rayVersion", ""), f"{cluster.path}.authOptions"
    if options.get("mode") != "token":
        if by_kubernetes:
            yield Fault(path, "enableK8sTokenAuth is on and mode is not token", "Set mode: token.")
        return
    since = _K8S_TOKEN_AUTH_SINCE if by_kubernetes else _TOKEN_AUTH_SINCE
    if version_numbers(version) < since:
        needed = ".".join(str(part) for part in since)
        yield Fault(
            f"{cluster.path}.rayVersion",
            f"{version or 'unset'}, and this token authentication needs Ray {needed} or later",
            f"Set rayVersion to the image's Ray, {needed}.0 or later.",
        )
    if by_kubernetes and options.get("secretName"):
        yield Fault(path, "secretName and enableK8sTokenAuth exclude each other", "Keep one of them.")


def _gated_features(cluster: Cluster) -> Iterator[Fault]:
    for field, gate in _GATED_OFF.items():
        if cluster.spec.get(field) is not None:
            yield Fault(
                f"{cluster.path}.{field}",
                f"the operator refuses it while its feature gate {gate} is off, as it is by default",
                "Remove it, or turn the gate on in the operator's chart and here.",
            )


def _redis_settings(cluster: Cluster) -> Iterator[Fault]:
    """KubeRay passes Redis's address and user itself, unless the older annotation asks for it."""
    if cluster.annotations.get("ray.io/ft-enabled", "").lower() == "true":
        return
    for variable, field in _REDIS_VARIABLES.items():
        if variable in cluster.head.environment:
            yield Fault(
                f"{cluster.head.path}.template.spec.containers[0].env",
                f"{variable} is the operator's to set",
                f"Use {field} instead.",
            )


def _redis_parameters(cluster: Cluster) -> Iterator[Fault]:
    has_options = bool(cluster.spec.get("gcsFaultToleranceOptions"))
    refused = {"redis-username": True, "redis-password": has_options}
    for name in (name for name, is_refused in refused.items() if is_refused and name in cluster.head.params):
        yield Fault(
            f"{cluster.head.path}.rayStartParams.{name}",
            "the operator refuses it here",
            "Use gcsFaultToleranceOptions, from a Secret.",
        )


def _fault_tolerance_backend(cluster: Cluster) -> Iterator[Fault]:
    options = cluster.spec.get("gcsFaultToleranceOptions") or {}
    path, is_rocksdb = f"{cluster.path}.gcsFaultToleranceOptions", options.get("backend") == "rocksdb"
    if is_rocksdb:
        yield Fault(
            f"{path}.backend",
            "rocksdb needs the feature gate GCSFaultToleranceEmbeddedStorage, which is off by default",
            "Use redis, or turn the gate on in the operator's chart and here.",
        )
    elif options.get("storage"):
        yield Fault(f"{path}.storage", "storage applies to the backend rocksdb alone", "Remove it.")


def _autoscaling(cluster: Cluster) -> Iterator[Fault]:
    switch = cluster.head.environment.get(_AUTOSCALER_V2)
    path = f"{cluster.head.path}.template.spec.containers[0].env"
    if not cluster.autoscales and switch in {"1", "true"}:
        yield Fault(path, f"{_AUTOSCALER_V2} is on and enableInTreeAutoscaling is off", "Remove it.")
    chosen = (cluster.spec.get("autoscalerOptions") or {}).get("version")
    if cluster.autoscales and chosen and switch is not None:
        yield Fault(path, f"{_AUTOSCALER_V2} and autoscalerOptions.version are both set", "Keep the latter.")
    if cluster.autoscaler_is_v2:
        for group in cluster.groups:
            yield from never_restarts(group, "with autoscaler v2")


def _worker_bounds(cluster: Cluster) -> Iterator[Fault]:
    for group in cluster.workers:
        lowest, highest = group.spec.get("minReplicas", 0), group.spec.get("maxReplicas", 2**31 - 1)
        if lowest < 0 or highest < 0:
            yield Fault(group.path, "minReplicas and maxReplicas must not be negative", "Use 0 or more.")
        if lowest > highest:
            yield Fault(
                f"{group.path}.minReplicas",
                f"minReplicas {lowest} is greater than maxReplicas {highest}",
                "Raise maxReplicas or lower minReplicas.",
            )
        replicas = group.spec.get("replicas", lowest)
        if not cluster.autoscales and not lowest <= replicas <= highest:
            yield Fault(
                f"{group.path}.replicas",
                f"{replicas} is outside of minReplicas {lowest} and maxReplicas {highest}: the operator"
                " silently takes the nearer bound",
                "Let all three agree.",
            )


def _autoscaler_only(cluster: Cluster) -> Iterator[Fault]:
    if cluster.autoscaler_is_v2:
        return
    for group in cluster.workers:
        wanted = {
            "idleTimeoutSeconds": group.spec.get("idleTimeoutSeconds") is not None,
            "priority": bool(group.spec.get("priority")),
        }
        for field in (field for field, is_set in wanted.items() if is_set):
            yield Fault(
                f"{group.path}.{field}",
                "only autoscaler v2 reads it, and the operator refuses it otherwise",
                "Remove it, or set enableInTreeAutoscaling and autoscalerOptions.version: v2.",
            )


def _idle_times(cluster: Cluster) -> Iterator[Fault]:
    options = cluster.spec.get("autoscalerOptions") or {}
    places = {f"{cluster.path}.autoscalerOptions": options, **{g.path: g.spec for g in cluster.workers}}
    for path, spec in places.items():
        if spec.get("idleTimeoutSeconds", 0) < 0:
            yield Fault(f"{path}.idleTimeoutSeconds", "must not be negative", "Use 0 or more.")


def _suspended_workers(cluster: Cluster) -> Iterator[Fault]:
    for group in cluster.workers:
        if cluster.autoscales and group.spec.get("suspend"):
            yield Fault(f"{group.path}.suspend", "excluded by the autoscaler", "Remove one of the two.")


def _upgrade_strategy(cluster: Cluster) -> Iterator[Fault]:
    if cluster.is_made_for_another and (cluster.spec.get("upgradeStrategy") or {}).get("type"):
        yield Fault(
            f"{cluster.path}.upgradeStrategy",
            "only a RayCluster of its own may have one",
            "Remove it: the job or service decides how its cluster changes.",
        )


_CLUSTER_RULES: tuple[Callable[[Cluster], Iterator[Fault]], ...] = (
    _authentication,
    _gated_features,
    _redis_settings,
    _redis_parameters,
    _fault_tolerance_backend,
    _autoscaling,
    _worker_bounds,
    _autoscaler_only,
    _idle_times,
    _suspended_workers,
    _upgrade_strategy,
)


def _one_source_of_resources(group: Group) -> Iterator[Fault]:
    in_params = {"num-cpus", "num-gpus", "memory", "resources"} & set(group.params)
    if in_params and group.spec.get("resources"):
        yield Fault(
            f"{group.path}.resources",
            f"set beside rayStartParams {', '.join(sorted(in_params))}",
            "Say it in one of the two.",
        )


def _labels_in_their_place(group: Group) -> Iterator[Fault]:
    if "labels" in group.params:
        yield Fault(
            f"{group.path}.rayStartParams.labels",
            "the operator refuses labels here",
            "Move them to the group's field labels.",
        )


_GROUP_RULES: tuple[Callable[[Group], Iterator[Fault]], ...] = (
    _one_source_of_resources,
    _labels_in_their_place,
)
