"""CloudFormation's query protocol over HTTP, as much of it as the CDK CLI speaks."""

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from http import HTTPStatus
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit
from xml.etree.ElementTree import Element, SubElement, tostring

from tests.emulated.changes import Change
from tests.emulated.engine import ChangeSet, ChangeSetNotFound, Engine
from tests.emulated.intrinsics import TemplateError
from tests.emulated.loopback import LoopbackServer, Request, Response
from tests.emulated.stacks import Stack, StackResource, ValidationError, parse_body

Parameters = Mapping[str, str]
Answer = Mapping[str, Any]

_NO_CHANGES = (
    "The submitted information didn't contain changes. Submit different information to create a change set."
)


@dataclass(kw_only=True)
class CloudFormationServer:
    """Serves one engine on a free loopback port until `close`."""

    engine: Engine
    read_object: Callable[[str, str], bytes]
    settle_seconds: float = 20.0
    """How long the answer to ExecuteChangeSet and DeleteStack may wait for the operation to end.

    The CLI polls every few seconds; an operation that is over at the first poll saves those seconds.
    """

    def __post_init__(self) -> None:
        self._actions: dict[str, Callable[[Parameters], Answer]] = {
            "CreateChangeSet": self._create_change_set,
            "DeleteChangeSet": self._delete_change_set,
            "DeleteStack": self._delete_stack,
            "DescribeChangeSet": self._describe_change_set,
            "DescribeStackEvents": self._describe_stack_events,
            "DescribeStackResources": self._describe_stack_resources,
            "DescribeStacks": self._describe_stacks,
            "ExecuteChangeSet": self._execute_change_set,
            "GetTemplate": self._get_template,
            "GetTemplateSummary": self._get_template_summary,
            "ListStackResources": self._list_stack_resources,
            "ListStacks": self._list_stacks,
            "UpdateTerminationProtection": self._update_termination_protection,
        }
        self._http = LoopbackServer(self._answer)

    @property
    def url(self) -> str:
        return self._http.url

    def close(self) -> None:
        """Stop answering."""
        self._http.close()

    def _answer(self, request: Request) -> Response:
        parameters = dict(parse_qsl(request.body.decode(), keep_blank_values=True))
        action = parameters["Action"]
        try:
            result = self._actions[action](parameters)
        except ChangeSetNotFound as error:
            return _error("ChangeSetNotFound", str(error), HTTPStatus.NOT_FOUND)
        except (ValidationError, TemplateError) as error:
            return _error("ValidationError", str(error), HTTPStatus.BAD_REQUEST)
        except Exception as error:
            self.engine.errors.append(error)
            raise
        root = Element(f"{action}Response")
        _fill(SubElement(root, f"{action}Result"), result)
        _fill(root, {"ResponseMetadata": {"RequestId": "emulated"}})
        return Response(body=tostring(root), content_type="text/xml")

    # --- change sets --------------------------------------------------------------------------------------

    def _create_change_set(self, parameters: Parameters) -> Answer:
        change_set = self.engine.create_change_set(
            name=parameters["ChangeSetName"],
            stack_name=parameters["StackName"],
            body=self._body(parameters),
            parameters={
                item["ParameterKey"]: item.get("ParameterValue")
                for item in _members(parameters, "Parameters")
            },
            tags={item["Key"]: item["Value"] for item in _members(parameters, "Tags")},
        )
        return {"Id": change_set.change_set_id, "StackId": change_set.stack.stack_id}

    def _describe_change_set(self, parameters: Parameters) -> Answer:
        change_set = self._change_set(parameters)
        empty = change_set.is_empty
        return {
            "ChangeSetId": change_set.change_set_id,
            "ChangeSetName": change_set.name,
            "StackId": change_set.stack.stack_id,
            "StackName": change_set.stack.name,
            "CreationTime": change_set.created,
            "Status": "FAILED" if empty else "CREATE_COMPLETE",
            "ExecutionStatus": "UNAVAILABLE" if empty else "AVAILABLE",
            "StatusReason": _NO_CHANGES if empty else "",
            "Changes": [_change(change) for change in change_set.changes],
        }

    def _delete_change_set(self, parameters: Parameters) -> Answer:
        with suppress(ChangeSetNotFound):  # Deleting one that does not exist succeeds.
            self.engine.delete_change_set(self._change_set(parameters))
        return {}

    def _execute_change_set(self, parameters: Parameters) -> Answer:
        self.engine.execute(self._change_set(parameters)).join(self.settle_seconds)
        return {}

    def _change_set(self, parameters: Parameters) -> ChangeSet:
        return self.engine.find_change_set(parameters["ChangeSetName"], parameters.get("StackName"))

    # --- stacks -------------------------------------------------------------------------------------------

    def _describe_stacks(self, parameters: Parameters) -> Answer:
        name = parameters.get("StackName")
        stacks = [self.engine.find_stack(name)] if name else self.engine.live_stacks()
        return {"Stacks": [_stack(stack) for stack in stacks]}

    def _list_stacks(self, _: Parameters) -> Answer:
        return {"StackSummaries": [_stack(stack) for stack in self.engine.live_stacks()]}

    def _delete_stack(self, parameters: Parameters) -> Answer:
        try:
            stack = self.engine.find_stack(parameters["StackName"])
        except ValidationError:
            return {}  # Deleting a stack that does not exist succeeds.
        self.engine.delete_stack(stack).join(self.settle_seconds)
        return {}

    def _update_termination_protection(self, parameters: Parameters) -> Answer:
        stack = self.engine.find_stack(parameters["StackName"])
        stack.termination_protection = parameters["EnableTerminationProtection"] == "true"
        return {"StackId": stack.stack_id}

    def _describe_stack_events(self, parameters: Parameters) -> Answer:
        stack = self.engine.find_stack(parameters["StackName"])
        return {
            "StackEvents": [
                {
                    "EventId": event.event_id,
                    "StackId": stack.stack_id,
                    "StackName": stack.name,
                    "LogicalResourceId": event.logical_id,
                    "PhysicalResourceId": event.physical_id,
                    "ResourceType": event.resource_type,
                    "Timestamp": event.timestamp,
                    "ResourceStatus": event.status,
                    "ResourceStatusReason": event.reason,
                }
                for event in stack.events
            ]
        }

    def _describe_stack_resources(self, parameters: Parameters) -> Answer:
        stack = self.engine.find_stack(parameters["StackName"])
        return {"StackResources": [_stack_resource(stack, *item) for item in stack.resources.items()]}

    def _list_stack_resources(self, parameters: Parameters) -> Answer:
        stack = self.engine.find_stack(parameters["StackName"])
        return {"StackResourceSummaries": [_stack_resource(stack, *item) for item in stack.resources.items()]}

    # --- templates ----------------------------------------------------------------------------------------

    def _get_template(self, parameters: Parameters) -> Answer:
        stack = self.engine.find_stack(parameters["StackName"])
        return {"TemplateBody": stack.template.body, "StagesAvailable": ["Original", "Processed"]}

    def _get_template_summary(self, parameters: Parameters) -> Answer:
        document = parse_body(self._body(parameters))
        return {
            "Parameters": [
                {"ParameterKey": name, "ParameterType": declaration["Type"]}
                for name, declaration in document.get("Parameters", {}).items()
            ],
            "ResourceTypes": sorted({item["Type"] for item in document.get("Resources", {}).values()}),
        }

    def _body(self, parameters: Parameters) -> str:
        if "TemplateBody" in parameters:
            return parameters["TemplateBody"]
        if "TemplateURL" in parameters:
            bucket, _, key = unquote(urlsplit(parameters["TemplateURL"]).path).lstrip("/").partition("/")
            return self.read_object(bucket, key).decode()
        return self.engine.find_stack(parameters["StackName"]).template.body


def _stack(stack: Stack) -> Answer:
    return {
        "StackId": stack.stack_id,
        "StackName": stack.name,
        "CreationTime": stack.created,
        "StackStatus": stack.status,
        "StackStatusReason": stack.status_reason,
        "EnableTerminationProtection": stack.termination_protection,
        "DisableRollback": False,
        "Parameters": [
            {"ParameterKey": name, "ParameterValue": value} for name, value in stack.template.given.items()
        ],
        "Outputs": [{"OutputKey": name, "OutputValue": value} for name, value in stack.outputs.items()],
        "Tags": [{"Key": key, "Value": value} for key, value in stack.tags.items()],
    }


def _stack_resource(stack: Stack, logical_id: str, entry: StackResource) -> Answer:
    return {
        "StackName": stack.name,
        "LogicalResourceId": logical_id,
        "PhysicalResourceId": entry.physical_id,
        "ResourceType": entry.resource.resource_type,
        "ResourceStatus": entry.status,
        "LastUpdatedTimestamp": stack.created,
    }


def _change(change: Change) -> Answer:
    return {
        "Type": "Resource",
        "ResourceChange": {
            "Action": change.action,
            "LogicalResourceId": change.logical_id,
            "PhysicalResourceId": change.physical_id,
            "ResourceType": change.resource_type,
            "Replacement": change.replacement,
            "Scope": ["Properties"],
            "Details": [
                {
                    "ChangeSource": "DirectModification",
                    "Evaluation": "Static",
                    "Target": {
                        "Attribute": "Properties",
                        "Name": name,
                        "RequiresRecreation": "Always" if change.replacement == "True" else "Never",
                    },
                }
                for name in change.properties
            ],
        },
    }


def _members(parameters: Parameters, name: str) -> Iterator[dict[str, str]]:
    """The items of a list parameter: `Name.member.N.Field`."""
    number = 1
    while item := {
        key.rpartition(".")[2]: value
        for key, value in parameters.items()
        if key.startswith(f"{name}.member.{number}.")
    }:
        yield item
        number += 1


def _fill(element: Element, value: Any) -> None:
    if isinstance(value, Mapping):
        for key, item in value.items():
            _fill(SubElement(element, key), item)
    elif isinstance(value, list):
        for item in value:
            _fill(SubElement(element, "member"), item)
    else:
        element.text = _text(value)


def _text(value: Any) -> str:
    if isinstance(value, datetime):
        return value.isoformat().replace("+00:00", "Z")
    return json.dumps(value) if isinstance(value, bool) else str(value)


def _error(code: str, message: str, status: HTTPStatus) -> Response:
    root = Element("ErrorResponse")
    _fill(root, {"Error": {"Type": "Sender", "Code": code, "Message": message}, "RequestId": "emulated"})
    return Response(body=tostring(root), status=status, content_type="text/xml")
