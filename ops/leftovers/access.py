"""IAM roles."""

from collections.abc import Iterator

from ops.leftovers.model import Found, Kind, Scope, tags_of


def _roles(scope: Scope) -> Iterator[Found]:
    """CloudFormation names a role after its stack; the tag then decides."""
    iam = scope.aws.client("iam")
    for role in scope.aws.pages("iam", "list_roles", "Roles"):
        name = role["RoleName"]
        if name.startswith(f"{scope.settings.name}-"):
            tags = tags_of(iam.list_role_tags(RoleName=name)["Tags"])
            if evidence := scope.owns(tags):
                yield name, evidence


def _delete_role(scope: Scope, name: str) -> None:
    iam = scope.aws.client("iam")
    for policy in iam.list_attached_role_policies(RoleName=name)["AttachedPolicies"]:
        iam.detach_role_policy(RoleName=name, PolicyArn=policy["PolicyArn"])
    for policy in iam.list_role_policies(RoleName=name)["PolicyNames"]:
        iam.delete_role_policy(RoleName=name, PolicyName=policy)
    iam.delete_role(RoleName=name)


KINDS = (Kind(name="IAM role", find=_roles, delete=_delete_role),)
