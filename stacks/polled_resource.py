"""Custom resources that are polled until they are done, for work that takes longer than a Lambda may run."""

from collections.abc import Sequence
from typing import Any

from aws_cdk import CustomResource, Duration
from aws_cdk import aws_iam as iam
from aws_cdk import aws_logs as logs
from aws_cdk import custom_resources as cr
from constructs import Construct

from stacks.handler_function import HandlerFunction


class PolledProvider(Construct):
    """Runs `handlers/<handler>.py`: `on_event` starts the work, `is_complete` is asked until it says so.

    The statements are granted to both functions. `total_timeout` is the last resort: handlers fail earlier by
    themselves, with a reason.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        handler: str,
        statements: Sequence[iam.PolicyStatement],
        total_timeout: Duration,
        query_interval: Duration,
    ) -> None:
        super().__init__(scope, construct_id)
        log_group = logs.LogGroup(self, "Log")
        functions = [
            HandlerFunction(
                self,
                function_id,
                entry=f"{handler}.{entry}",
                timeout=Duration.minutes(2),
                log_group=log_group,
                statements=statements,
            )
            for function_id, entry in (("OnEvent", "on_event"), ("IsComplete", "is_complete"))
        ]
        self.service_token = cr.Provider(
            self,
            "Provider",
            on_event_handler=functions[0],
            is_complete_handler=functions[1],
            total_timeout=total_timeout,
            query_interval=query_interval,
            log_group=log_group,
            disable_waiter_state_machine_logging=True,
        ).service_token


class PolledResource(Construct):
    """One custom resource with a provider of its own."""

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        handler: str,
        properties: dict[str, Any],
        statements: Sequence[iam.PolicyStatement],
        total_timeout: Duration,
        query_interval: Duration,
    ) -> None:
        super().__init__(scope, construct_id)
        provider = PolledProvider(
            self,
            "Provider",
            handler=handler,
            statements=statements,
            total_timeout=total_timeout,
            query_interval=query_interval,
        )
        self.resource = CustomResource(
            self, "Resource", service_token=provider.service_token, properties=properties
        )
