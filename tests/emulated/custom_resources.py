"""CloudFormation's side of custom resources: events out, answers in, and CDK's provider framework between.

Real: the functions that do the work (`functions`). Stood in: CDK's provider framework, which is a Node
function; its protocol is followed here, with the polling done at once instead of every `query_interval`.
CDK's other Node functions have a stand-in each in `node_functions`.
"""

import json
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from tests.emulated.account import Account, Resource
from tests.emulated.failures import ResourceFailure
from tests.emulated.functions import FunctionError, Functions
from tests.emulated.identities import Identity
from tests.emulated.node_functions import NodeFunctions
from tests.emulated.responses import ResponseInbox
from tests.emulated.stacks import Stack

CREATE_FAILED = "AWSCDK::CustomResourceProviderFramework::CREATE_FAILED"
"""Physical id that the framework gives to a failed creation, so that it can ignore the deletion."""
MOST_POLLS = 50
LONGEST_RESPONSE = 4096
"""Bytes, by CloudFormation's documentation of response objects."""


class ProviderFailure(Exception):
    """The provider answered FAILED, or not at all."""

    def __init__(self, reason: str, *, physical_id: str | None = None) -> None:
        super().__init__(reason)
        self.physical_id = physical_id
        """Set when the work had begun: CloudFormation then sends a Delete event for it."""


@dataclass(frozen=True, kw_only=True)
class Answer:
    """What the provider said of one event."""

    physical_id: str
    data: Mapping[str, Any]


@dataclass(kw_only=True)
class CustomResources:
    """Creates, changes and deletes custom resources by calling their functions."""

    account: Account
    functions: Functions
    node_functions: NodeFunctions
    inbox: ResponseInbox
    lose_answers_of: set[str] = field(default_factory=set)
    """Logical ids whose next event is handled but whose answer never arrives: the function timed out."""
    send_twice: bool = False
    """Whether every event is delivered twice, as Lambda's at-least-once delivery may do."""

    def create(
        self, *, stack: Stack, logical_id: str, resource_type: str, properties: Mapping[str, Any]
    ) -> Resource:
        """Send a Create event."""
        asked = Resource(
            resource_type=resource_type,
            logical_id=logical_id,
            stack=stack.name,
            identity=_identity(stack.name, logical_id, "", {}),
            properties=properties,
        )
        try:
            answer = self._send(stack, asked, "Create", {})
        except ProviderFailure as failure:
            half_made = self._enter(asked, Answer(physical_id=failure.physical_id or CREATE_FAILED, data={}))
            raise ResourceFailure(_reason(failure), half_made=half_made) from failure
        return self._enter(asked, answer)

    def update(self, *, stack: Stack, resource: Resource, properties: Mapping[str, Any]) -> Resource:
        """Send an Update event; another physical id in the answer makes another resource."""
        changed = replace(resource, properties=properties)
        old = {"OldResourceProperties": _as_strings(resource.properties)}
        try:
            answer = self._send(stack, changed, "Update", old)
        except ProviderFailure as failure:
            raise ResourceFailure(_reason(failure)) from failure
        return self._enter(changed, answer)

    def delete(self, *, stack: Stack, resource: Resource) -> None:
        """Send a Delete event, except for what the framework knows was never created."""
        if resource.identity.ref != CREATE_FAILED:
            try:
                self._send(stack, resource, "Delete", {})
            except ProviderFailure as failure:
                raise ResourceFailure(_reason(failure)) from failure
        self.account.remove(resource)

    def _enter(self, resource: Resource, answer: Answer) -> Resource:
        identity = _identity(resource.stack, resource.logical_id, answer.physical_id, answer.data)
        made = replace(resource, identity=identity)
        self.account.add(made)
        return made

    def _send(self, stack: Stack, resource: Resource, request_type: str, extra: Mapping[str, Any]) -> Answer:
        request_id = str(uuid.uuid4())
        event = {
            "RequestType": request_type,
            "ServiceToken": resource.properties["ServiceToken"],
            "ResponseURL": self.inbox.url(request_id),
            "StackId": stack.stack_id,
            "RequestId": request_id,
            "LogicalResourceId": resource.logical_id,
            "ResourceType": resource.resource_type,
            "ResourceProperties": _as_strings(resource.properties),
            **extra,
        }
        if request_type != "Create":
            event["PhysicalResourceId"] = resource.identity.ref
        answer = self._provide(event)
        if self.send_twice:
            answer = self._provide(event)
        if resource.logical_id in self.lose_answers_of:
            self.lose_answers_of.discard(resource.logical_id)
            raise ProviderFailure("Task timed out after 900.00 seconds")
        return answer

    def _provide(self, event: Mapping[str, Any]) -> Answer:
        provider = self.functions.find(event["ServiceToken"])
        variables = provider.properties.get("Environment", {}).get("Variables", {})
        if "USER_ON_EVENT_FUNCTION_ARN" in variables:
            self.functions.on_invoke(provider)
            return self._framework(event, variables)
        if provider.properties["Runtime"].startswith("python"):
            return self._direct(event)
        self.functions.on_invoke(provider)
        return self._answer(event, self.node_functions.call(provider, event))

    def _direct(self, event: Mapping[str, Any]) -> Answer:
        """A function that answers CloudFormation itself."""
        try:
            self.functions.invoke(event["ServiceToken"], event)
        except FunctionError as error:
            raise ProviderFailure(f"CloudFormation did not receive a response: {error}") from error
        response = self.inbox.take(event["RequestId"])
        if response is None:
            raise ProviderFailure("CloudFormation did not receive a response from your Custom Resource")
        if response["Status"] != "SUCCESS":
            raise ProviderFailure(response["Reason"], physical_id=response["PhysicalResourceId"])
        return self._answer(event, response)

    def _framework(self, event: Mapping[str, Any], variables: Mapping[str, str]) -> Answer:
        try:
            result = self.functions.invoke(variables["USER_ON_EVENT_FUNCTION_ARN"], event) or {}
            answer = self._answer(event, result)
        except FunctionError as error:
            raise ProviderFailure(str(error)) from error
        poller = variables.get("USER_IS_COMPLETE_FUNCTION_ARN")
        if poller is None:
            return answer
        question = {**event, **result, "PhysicalResourceId": answer.physical_id}
        try:
            return self._poll(poller, question)
        except FunctionError as error:
            raise ProviderFailure(str(error), physical_id=answer.physical_id) from error

    def _poll(self, poller: str, question: Mapping[str, Any]) -> Answer:
        for _ in range(MOST_POLLS):
            status = self.functions.invoke(poller, question)
            if status["IsComplete"]:
                data = {**question.get("Data", {}), **status.get("Data", {})}
                return self._answer(question, {**question, **status, "Data": data})
            if status.get("Data"):
                raise FunctionError('"Data" is not allowed if "IsComplete" is "False"')
        raise FunctionError("Operation timed out")

    @staticmethod
    def _answer(event: Mapping[str, Any], result: Mapping[str, Any]) -> Answer:
        default = event["RequestId"] if event["RequestType"] == "Create" else event["PhysicalResourceId"]
        physical_id = result.get("PhysicalResourceId") or default
        if event["RequestType"] == "Delete" and physical_id != event["PhysicalResourceId"]:
            raise FunctionError("DELETE: cannot change the physical resource ID during deletion")
        data = result.get("Data") or {}
        if len(json.dumps(data)) > LONGEST_RESPONSE:
            raise FunctionError("Response object is too long.")
        return Answer(physical_id=physical_id, data=data)


def _identity(stack: str, logical_id: str, physical_id: str, data: Mapping[str, Any]) -> Identity:
    return Identity(primary=(stack, logical_id, physical_id), ref=physical_id, attributes=data)


def _reason(failure: ProviderFailure) -> str:
    return f"Received response status [FAILED] from custom resource. Message returned: {failure}"


def _as_strings(value: Any) -> Any:
    """Properties as functions receive them: every scalar is a string, booleans in lower case."""
    if isinstance(value, dict):
        return {key: _as_strings(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_as_strings(item) for item in value]
    return str(value).lower() if isinstance(value, bool) else str(value)
