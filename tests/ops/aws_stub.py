"""An account that answers from a table, held to the real service models on the way in and out."""

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, ClassVar, Self

import boto3
from botocore.awsrequest import AWSResponse
from botocore.config import Config
from botocore.exceptions import ClientError
from botocore.model import OperationModel
from botocore.validate import validate_parameters

from ops.aws import Aws

type Answer = Mapping[str, Any] | Exception | Callable[[Mapping[str, Any]], Mapping[str, Any]]
type Answers = Mapping[str, Answer]
"""By `service.Operation`, as `ec2.DescribeVpcs`."""

ACCOUNT = "111122223333"


def refusal(code: str, message: str = "refused") -> ClientError:
    return ClientError({"Error": {"Code": code, "Message": message}}, "Operation")


class StubbedAws(Aws):
    """No request leaves the process; an operation without an answer fails the test.

    Clients are shared between tests, because making them is slow; the latest account answers.
    """

    latest: ClassVar[Self]

    def __init__(self, answers: Answers, region: str = "us-east-2") -> None:
        super().__init__(region)
        self.answers = answers
        self.calls: list[tuple[str, Mapping[str, Any]]] = []
        type(self).latest = self

    def _make_client(self, service: str) -> Any:
        return _shared_client(service, self.region)

    def note(self, params: Mapping[str, Any], model: OperationModel) -> None:
        self.calls.append((_name(model), params))

    def answer(self, model: OperationModel) -> tuple[AWSResponse, Mapping[str, Any]]:
        name = _name(model)
        answer = self.answers[name]
        if isinstance(answer, ClientError):
            raise ClientError(answer.response, model.name)
        if isinstance(answer, Exception):
            raise answer
        params = next(params for called, params in reversed(self.calls) if called == name)
        body = answer(params) if callable(answer) else answer
        if model.output_shape is not None:
            validate_parameters(dict(body), model.output_shape)
        return AWSResponse("https://stub", 200, {}, None), body


def _note(params: Mapping[str, Any], model: OperationModel, **_: object) -> None:
    StubbedAws.latest.note(params, model)


def _answer(model: OperationModel, **_: object) -> tuple[AWSResponse, Mapping[str, Any]]:
    return StubbedAws.latest.answer(model)


@cache
def _shared_client(service: str, region: str) -> Any:
    keys = {"aws_access_key_id": "test", "aws_secret_access_key": "test"}
    client = boto3.client(service, region_name=region, config=Config(retries={"max_attempts": 1}), **keys)
    client.meta.events.register("provide-client-params", _note)
    client.meta.events.register("before-call", _answer)
    return client


def _name(model: OperationModel) -> str:
    return f"{model.service_model.service_name}.{model.name}"
