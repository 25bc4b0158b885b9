"""Two assemblies' templates, resource by resource: added, changed, replaced, destroyed.

A resource is replaced when a create-only property differs, or when one refers to a resource that is replaced
itself, in the same stack or through an export. Not known from templates: whether a custom resource's function
makes a new resource, and attributes that change although their resource stays.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from ops.resource_types import UnknownResourceType, resource_schema, value_at
from ops.reviewing.assembly import Assembly, Stack
from ops.reviewing.values import Difference, differences

STATEFUL = frozenset(
    {
        "AWS::APS::Workspace",
        "AWS::ECR::Repository",
        "AWS::EFS::FileSystem",
        "AWS::EKS::Cluster",
        "AWS::FSx::FileSystem",
        "AWS::KMS::Key",
        "AWS::S3::Bucket",
        "AWS::SageMaker::Cluster",
    }
)
"""What loses data or running work when it is replaced or destroyed."""

ACCESS_PREFIXES = ("AWS::IAM::", "AWS::EC2::SecurityGroup")
ACCESS_TYPES = frozenset(
    {
        "AWS::EKS::AccessEntry",
        "AWS::EKS::PodIdentityAssociation",
        "AWS::Lambda::Permission",
        "AWS::S3::BucketPolicy",
    }
)
ACCESS_PROPERTIES = ("KeyPolicy", "RepositoryPolicyText", "ResourcesVpcConfig")
"""Who may do or reach what, in resources that are about something else."""

NESTED_CREATE_ONLY: Mapping[str, tuple[str, ...]] = {
    "AWS::FSx::FileSystem": tuple(
        f"LustreConfiguration.{name}"
        for name in (
            "CopyTagsToBackups",
            "DeploymentType",
            "DriveCacheType",
            "ExportPath",
            "ImportedFileChunkSize",
            "ImportPath",
            "PerUnitStorageThroughput",
        )
    )
}
"""What cfn-lint's schema leaves out: `causesReplacement` in the service database of the CDK CLI
(aws-cdk 2.1148.1, db.json.gz, type LustreConfiguration), which `cdk diff` reads."""

IGNORED_TYPES = frozenset({"AWS::CDK::Metadata"})
"""Names the CDK's version and nothing that anybody uses."""
_SUB = re.compile(r"\$\{([^!}.]+)[^}]*\}")

type Address = tuple[str, str]
"""Stack and logical id."""


class Action(StrEnum):
    """What a deploy does to a resource."""

    DESTROYED = "destroyed"
    REPLACED = "REPLACED"
    CHANGED = "changed"
    ADDED = "added"


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceChange:
    """One resource that a deploy touches."""

    stack: str
    name: str
    """Path of the construct, or the logical id."""
    resource_type: str
    action: Action
    because: tuple[str, ...] = ()
    """Properties that force the replacement."""
    differences: tuple[Difference, ...] = ()
    is_kept: bool = False
    """Whether the old resource stays behind, by its deletion or update-replace policy."""

    @property
    def is_destructive(self) -> bool:
        gone = self.action in (Action.DESTROYED, Action.REPLACED)
        return gone and self.resource_type in STATEFUL

    @property
    def is_access(self) -> bool:
        named = self.resource_type.startswith(ACCESS_PREFIXES) or self.resource_type in ACCESS_TYPES
        return named or any(each.path.startswith(ACCESS_PROPERTIES) for each in self.differences)


def changes(base: Assembly, head: Assembly) -> list[ResourceChange]:
    """Everything that a deploy of `head` over `base` touches, stack by stack, the worst first."""
    replaced = _replaced(base, head)
    found = [
        change
        for name in dict.fromkeys((*base.stacks, *head.stacks))
        for change in _in_stack(base.stacks.get(name), head.stacks.get(name), replaced)
    ]
    order = list(Action)
    return sorted(found, key=lambda change: order.index(change.action))


def _in_stack(
    before: Stack | None, after: Stack | None, replaced: Mapping[Address, tuple[str, ...]]
) -> Iterator[ResourceChange]:
    if before and after and before.region != after.region:
        # CloudFormation keeps a stack per region: the old one is left where it is, and a new one made.
        yield from _in_stack(before, None, replaced)
        yield from _in_stack(None, after, replaced)
        return
    old, new = _resources(before), _resources(after)
    for logical_id in (*old, *(each for each in new if each not in old)):
        stack = (after or before).name  # type: ignore[union-attr]
        change = _change(stack, logical_id, old.get(logical_id), new.get(logical_id), replaced)
        if change:
            yield change


def _change(
    stack: str, logical_id: str, before: Any, after: Any, replaced: Mapping[Address, tuple[str, ...]]
) -> ResourceChange | None:
    subject = after or before
    because = replaced.get((stack, logical_id), ())
    found = () if before is None or after is None else tuple(_resource_differences(before, after))
    action = _action(before, after, is_replaced=bool(because))
    if action is Action.CHANGED and not found:
        return None
    policy = "UpdateReplacePolicy" if action is Action.REPLACED else "DeletionPolicy"
    return ResourceChange(
        stack=stack,
        name=_name(stack, logical_id, subject),
        resource_type=subject["Type"],
        action=action,
        because=because,
        differences=found,
        is_kept=before is not None and str(before.get(policy, "")).startswith("Retain"),
    )


def _action(before: Any, after: Any, *, is_replaced: bool) -> Action:
    if before is None:
        return Action.ADDED
    if after is None:
        return Action.DESTROYED
    return Action.REPLACED if is_replaced else Action.CHANGED


def _resources(stack: Stack | None) -> Mapping[str, Any]:
    resources = stack.resources if stack else {}
    return {key: value for key, value in resources.items() if value["Type"] not in IGNORED_TYPES}


def _resource_differences(before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterator[Difference]:
    def compared(resource: Mapping[str, Any]) -> dict[str, Any]:
        attributes = {key: value for key, value in resource.items() if key not in ("Properties", "Metadata")}
        return {**resource.get("Properties", {}), **attributes}

    return differences(compared(before), compared(after))


def _name(stack: str, logical_id: str, resource: Mapping[str, Any]) -> str:
    path = str(resource.get("Metadata", {}).get("aws:cdk:path", logical_id))
    return path.removeprefix(f"{stack}/").removesuffix("/Resource").removesuffix("/Default")


def _replaced(base: Assembly, head: Assembly) -> dict[Address, tuple[str, ...]]:
    """Address -> properties that force a replacement, followed through references until nothing is added."""
    common = {
        (name, logical_id): (stack, base.stacks[name].resources[logical_id], resource)
        for name, stack in head.stacks.items()
        if name in base.stacks and base.stacks[name].region == stack.region
        for logical_id, resource in stack.resources.items()
        if logical_id in base.stacks[name].resources
    }
    exports = _exports(head)
    replaced: dict[Address, tuple[str, ...]] = {}
    while True:
        found = {
            address: because
            for address, (stack, before, after) in common.items()
            if address not in replaced
            and (because := tuple(_reasons(stack, before, after, exports=exports, replaced=replaced)))
        }
        if not found:
            return replaced
        replaced |= found


def _reasons(
    stack: Stack,
    before: Mapping[str, Any],
    after: Mapping[str, Any],
    *,
    exports: Mapping[str, frozenset[Address]],
    replaced: Mapping[Address, object],
) -> Iterator[str]:
    if before["Type"] != after["Type"]:
        yield "Type"
        return
    old, new = before.get("Properties", {}), after.get("Properties", {})
    for name in _create_only(after["Type"], region=stack.region):
        if value_at(old, name) != value_at(new, name):
            yield name
        elif any(address in replaced for address in _references(value_at(new, name), stack.name, exports)):
            yield f"{name} (refers to what is replaced)"


def _create_only(resource_type: str, *, region: str) -> tuple[str, ...]:
    try:
        schema = resource_schema(resource_type, region=region)
    except UnknownResourceType:
        return ()  # `make check` refuses a type that the region lacks; a review still shows the change
    return (*schema.create_only, *NESTED_CREATE_ONLY.get(resource_type, ()))


def _exports(assembly: Assembly) -> dict[str, frozenset[Address]]:
    """Name of an export -> what its value refers to."""
    return {
        str(output["Export"]["Name"]): frozenset(_references(output["Value"], stack.name, {}))
        for stack in assembly.stacks.values()
        for output in stack.template.get("Outputs", {}).values()
        if "Export" in output
    }


def _references(value: Any, stack: str, exports: Mapping[str, frozenset[Address]]) -> Iterator[Address]:
    """The resources whose identifier or attribute a template's value contains."""
    if isinstance(value, list):
        for item in value:
            yield from _references(item, stack, exports)
    elif isinstance(value, dict):
        for key, inner in value.items():
            yield from _of_function(key, inner, stack, exports)


def _of_function(
    key: str, inner: Any, stack: str, exports: Mapping[str, frozenset[Address]]
) -> Iterator[Address]:
    if key == "Ref":
        yield (stack, str(inner))
    elif key == "Fn::GetAtt":
        yield (stack, inner[0] if isinstance(inner, list) else str(inner).partition(".")[0])
    elif key == "Fn::Sub":
        text = inner[0] if isinstance(inner, list) else inner
        yield from ((stack, name) for name in _SUB.findall(text))
        yield from _references(inner, stack, exports)
    elif key == "Fn::ImportValue":
        yield from exports.get(str(inner), frozenset())
    else:
        yield from _references(inner, stack, exports)
