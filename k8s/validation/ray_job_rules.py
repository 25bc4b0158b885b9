"""The KubeRay operator's rules for a job, and two that it lacks.

From controllers/ray/utils/validation.go of KubeRay 1.7.0, with its default feature gates. It lacks: that the
submission mode exists, and that the entrypoint survives being pasted into a shell script.
"""

import re
from collections.abc import Callable, Iterator
from typing import Any

import yaml

from k8s.validation.findings import Fault
from k8s.validation.ray_cluster_rules import Group, never_restarts

type Json = dict[str, Any]

_SUBMISSION_MODES = ("K8sJobMode", "HTTPMode", "SidecarMode", "InteractiveMode")
_SHELL_PASTING_MODES = ("K8sJobMode", "SidecarMode")
_SHELL_CHARACTERS = re.compile(r"[;&|<>$`\\\"'(){}*?!#\n~]")
_DELETION_ORDER = ("DeleteWorkers", "DeleteCluster", "DeleteSelf")


def job_faults(spec: Json, path: str) -> Iterator[Fault]:
    """What the operator, or the submitter's shell, would refuse in a job's spec."""
    for rule in _JOB_RULES:
        for fault in rule(spec):
            yield fault._replace(path=f"{path}.{fault.path}")


def _where_it_runs(spec: Json) -> Iterator[Fault]:
    selector, cluster = spec.get("clusterSelector"), spec.get("rayClusterSpec")
    if bool(selector) == bool(cluster):
        yield Fault(
            "rayClusterSpec",
            "exactly one of rayClusterSpec and clusterSelector says where the job runs",
            "Keep one of the two.",
        )
    if selector and not selector.get("ray.io/cluster"):
        yield Fault("clusterSelector", "has no key ray.io/cluster", "Name the RayCluster under that key.")
    authentication = (cluster or {}).get("authOptions") or {}
    if authentication.get("enableK8sTokenAuth"):
        yield Fault(
            "rayClusterSpec.authOptions.enableK8sTokenAuth",
            "the operator refuses it for a RayJob",
            "Use mode: token with secretName.",
        )


def _limits_of_a_selected_cluster(spec: Json) -> Iterator[Fault]:
    if not spec.get("clusterSelector"):
        return
    policies = _deletion_policies(spec)
    refused = {
        "suspend": bool(spec.get("suspend")),
        "backoffLimit": spec.get("backoffLimit", 0) > 0,
        "submissionMode": spec.get("submissionMode") == "SidecarMode",
        "deletionStrategy": bool({"DeleteCluster", "DeleteWorkers"} & policies),
    }
    for field in (field for field, is_set in refused.items() if is_set):
        yield Fault(
            field, f"{spec[field]} is refused beside clusterSelector", "Remove it, or use rayClusterSpec."
        )


def _deletion_policies(spec: Json) -> set[str]:
    """Every policy of the strategy, by rules or by outcome."""
    strategy = spec.get("deletionStrategy") or {}
    outcomes = [strategy.get("onSuccess") or {}, strategy.get("onFailure") or {}]
    return {rule.get("policy", "") for rule in [*outcomes, *(strategy.get("deletionRules") or [])]}


def _workers_of_an_autoscaler(spec: Json) -> Iterator[Fault]:
    autoscales = (spec.get("rayClusterSpec") or {}).get("enableInTreeAutoscaling")
    if autoscales and "DeleteWorkers" in _deletion_policies(spec):
        yield Fault("deletionStrategy", "DeleteWorkers is excluded by the autoscaler", "Use DeleteCluster.")


def _clean_up(spec: Json) -> Iterator[Fault]:
    shuts_down, strategy = bool(spec.get("shutdownAfterJobFinishes")), spec.get("deletionStrategy") or {}
    if spec.get("suspend") and not shuts_down:
        yield Fault("suspend", "needs shutdownAfterJobFinishes", "Set shutdownAfterJobFinishes: true.")
    if spec.get("ttlSecondsAfterFinished", 0) > 0 and not shuts_down:
        yield Fault(
            "ttlSecondsAfterFinished",
            "without shutdownAfterJobFinishes the operator refuses the job",
            "Set shutdownAfterJobFinishes: true.",
        )
    if strategy.get("deletionRules") and shuts_down:
        yield Fault(
            "deletionStrategy.deletionRules",
            "excluded by shutdownAfterJobFinishes",
            "Remove shutdownAfterJobFinishes and let the rules say when the cluster goes.",
        )
    if shuts_down and "DeleteNone" in _deletion_policies(spec):
        yield Fault("deletionStrategy", "DeleteNone contradicts shutdownAfterJobFinishes", "Drop one.")


def _deletion_rules(spec: Json) -> Iterator[Fault]:
    rules = (spec.get("deletionStrategy") or {}).get("deletionRules") or []
    seconds_by_condition: dict[str, dict[str, int]] = {}
    for index, rule in enumerate(rules):
        condition, policy = rule["condition"], rule["policy"]
        name = condition.get("jobStatus") or condition.get("jobDeploymentStatus") or ""
        seconds = seconds_by_condition.setdefault(name, {})
        if policy in seconds:
            yield Fault(
                f"deletionStrategy.deletionRules[{index}]",
                f"a second {policy} for {name}",
                "Remove one of the two.",
            )
        seconds[policy] = condition.get("ttlSeconds", 0)
    for name, seconds in seconds_by_condition.items():
        in_order = [seconds[policy] for policy in _DELETION_ORDER if policy in seconds]
        if in_order != sorted(in_order):
            yield Fault(
                "deletionStrategy.deletionRules",
                f"for {name} the times do not grow from {' to '.join(_DELETION_ORDER)}",
                "Give the larger thing the longer time.",
            )


def _modes(spec: Json) -> Iterator[Fault]:
    mode = spec.get("submissionMode", "K8sJobMode")
    if mode not in _SUBMISSION_MODES:
        yield Fault(
            "submissionMode",
            f"{mode!r} is not one of {', '.join(_SUBMISSION_MODES)}, and neither the API server nor the"
            " operator says so",
            f"Use one of: {', '.join(_SUBMISSION_MODES)}.",
        )
    if mode == "InteractiveMode" and spec.get("backoffLimit", 0) > 0:
        yield Fault("backoffLimit", "InteractiveMode allows no retry", "Remove it.")


def _sidecar_mode(spec: Json) -> Iterator[Fault]:
    if spec.get("submissionMode") != "SidecarMode" or not spec.get("rayClusterSpec"):
        return
    for field in ("submitterPodTemplate", "submitterConfig"):
        if spec.get(field):
            yield Fault(field, "SidecarMode has no submitter of its own", "Remove it.")
    head = Group(spec=spec["rayClusterSpec"]["headGroupSpec"], path="rayClusterSpec.headGroupSpec")
    yield from never_restarts(head, "in SidecarMode")


def _times_and_retries(spec: Json) -> Iterator[Fault]:
    for field in ("activeDeadlineSeconds", "preRunningDeadlineSeconds"):
        if spec.get(field, 1) <= 0:
            yield Fault(field, f"{spec[field]} must be greater than 0", "Give seconds, or leave it out.")
    for field in ("backoffLimit", "ttlSecondsAfterFinished"):
        if spec.get(field, 0) < 0:
            yield Fault(field, f"{spec[field]} must not be negative", "Use 0 or more.")


def _runtime_environment(spec: Json) -> Iterator[Fault]:
    text = spec.get("runtimeEnvYAML")
    if not text:
        return
    try:
        is_map = isinstance(yaml.safe_load(text), dict)
    except yaml.YAMLError:
        is_map = False
    if not is_map:
        yield Fault("runtimeEnvYAML", "is no YAML map", "Write it as `key: value` lines.")


def _entrypoint(spec: Json) -> Iterator[Fault]:
    """KubeRay pastes the entrypoint unquoted behind `ray job submit ... --` in a bash script."""
    entrypoint = spec.get("entrypoint", "")
    if spec.get("submissionMode", "K8sJobMode") not in _SHELL_PASTING_MODES or _submits_by_itself(spec):
        return
    found = _SHELL_CHARACTERS.search(entrypoint.strip())
    if found:
        yield Fault(
            "entrypoint",
            f"{found.group()!r} in {entrypoint!r} is read by the submitter's shell: what follows it runs in"
            " the wrong place or not at all",
            "Use one plain command, such as `python -m package --option value`, or a script in the image.",
        )
    if not entrypoint.strip():
        yield Fault("entrypoint", "is empty", "Name the command to run.")


def _submits_by_itself(spec: Json) -> bool:
    """The submitter has a command of its own, and the operator leaves it alone."""
    template = spec.get("submitterPodTemplate") or {"spec": {"containers": [{}]}}
    return bool(template["spec"]["containers"][0].get("command"))


_JOB_RULES: tuple[Callable[[Json], Iterator[Fault]], ...] = (
    _where_it_runs,
    _limits_of_a_selected_cluster,
    _workers_of_an_autoscaler,
    _clean_up,
    _deletion_rules,
    _modes,
    _sidecar_mode,
    _times_and_retries,
    _runtime_environment,
    _entrypoint,
)
