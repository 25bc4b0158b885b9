"""Creates, changes and deletes single resources, each kind in its way.

Registry types are checked against their schema and the account's rules and then exist in `Account`; those
that other parts of the system call (`backing`) exist in moto too. Custom resources run their function.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from ops.resource_types import is_custom, resource_schema
from tests.emulated.account import Account, Resource
from tests.emulated.backing import Backing
from tests.emulated.custom_resources import CustomResources
from tests.emulated.failures import ResourceFailure
from tests.emulated.identities import IdentityFactory
from tests.emulated.rules import BEFORE_CREATE, BEFORE_DELETE, BEFORE_UPDATE, refusal
from tests.emulated.schemas import property_faults
from tests.emulated.stacks import Stack


@dataclass(frozen=True, kw_only=True)
class ResourceHandlers:
    """The handlers of one account and region."""

    account: Account
    identities: IdentityFactory
    backing: Backing
    custom_resources: CustomResources

    def create(
        self, *, stack: Stack, logical_id: str, resource_type: str, properties: Mapping[str, Any]
    ) -> Resource:
        """Make the resource, or raise ResourceFailure."""
        schema = resource_schema(resource_type, region=self.identities.region)
        if is_custom(resource_type):
            return self.custom_resources.create(
                stack=stack, logical_id=logical_id, resource_type=resource_type, properties=properties
            )
        self._refuse_bad_properties(resource_type, properties)
        resource = Resource(
            resource_type=resource_type,
            logical_id=logical_id,
            stack=stack.name,
            identity=self.identities.create(
                schema=schema, stack=stack.name, logical_id=logical_id, properties=properties
            ),
            properties=properties,
        )
        if reason := refusal(BEFORE_CREATE, self.account, resource):
            raise ResourceFailure(reason)
        self.backing.create(resource)
        self.account.add(resource)
        return resource

    def update(self, *, stack: Stack, resource: Resource, properties: Mapping[str, Any]) -> Resource:
        """Change the resource in place; a custom resource may give another one instead."""
        if is_custom(resource.resource_type):
            return self.custom_resources.update(stack=stack, resource=resource, properties=properties)
        self._refuse_bad_properties(resource.resource_type, properties)
        changed = replace(resource, properties=properties)
        if reason := refusal(BEFORE_UPDATE, self.account, changed):
            raise ResourceFailure(reason)
        self.backing.update(changed)
        self.account.add(changed)
        return changed

    def replaces(self, *, resource: Resource, resource_type: str, properties: Mapping[str, Any]) -> list[str]:
        """The changes for which CloudFormation makes a new resource; empty when it changes the old one."""
        if resource_type != resource.resource_type:
            return ["Type"]
        schema = resource_schema(resource_type, region=self.identities.region)
        return schema.replaces(before=resource.properties, after=properties)

    def delete(self, *, stack: Stack, resource: Resource) -> None:
        """Delete the resource, or raise ResourceFailure."""
        if is_custom(resource.resource_type):
            self.custom_resources.delete(stack=stack, resource=resource)
            return
        if reason := refusal(BEFORE_DELETE, self.account, resource):
            raise ResourceFailure(reason)
        self.backing.delete(resource)
        self.account.remove(resource)

    def _refuse_bad_properties(self, resource_type: str, properties: Mapping[str, Any]) -> None:
        faults = property_faults(resource_type, properties, region=self.identities.region)
        if faults:
            raise ResourceFailure("Properties validation failed: " + "; ".join(faults[:3]))
