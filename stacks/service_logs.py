"""The log groups that a service makes by itself."""

from aws_cdk import CustomResource, Duration, RemovalPolicy, Stack
from aws_cdk import aws_iam as iam
from aws_cdk import aws_logs as logs
from aws_cdk import custom_resources as cr
from constructs import Construct

from stacks.handler_function import HandlerFunction


class ServiceLogs(Construct):
    """Deletes the log groups under `prefix` when it is destroyed, unless `removal_policy` retains them.

    What makes the log groups depends on this construct, so that nothing writes to them any more.
    """

    def __init__(
        self, scope: Construct, construct_id: str, *, prefix: str, removal_policy: RemovalPolicy
    ) -> None:
        super().__init__(scope, construct_id)
        stack = Stack.of(self)
        log_group = logs.LogGroup(self, "Log")
        function = HandlerFunction(
            self,
            "OnEvent",
            entry="log_cleanup.on_event",
            timeout=Duration.minutes(2),
            log_group=log_group,
            statements=[
                # Listing knows no resource but "all log groups of the region".
                iam.PolicyStatement(
                    actions=["logs:DescribeLogGroups"],
                    resources=[f"arn:{stack.partition}:logs:{stack.region}:{stack.account}:log-group:*"],
                ),
                iam.PolicyStatement(
                    actions=["logs:DeleteLogGroup"],
                    resources=[
                        f"arn:{stack.partition}:logs:{stack.region}:{stack.account}:log-group:{prefix}*"
                    ],
                ),
            ],
        )
        provider = cr.Provider(self, "Provider", on_event_handler=function, log_group=log_group)
        CustomResource(
            self,
            "Groups",
            resource_type="Custom::ServiceLogs",
            service_token=provider.service_token,
            properties={"Prefix": prefix},
            removal_policy=removal_policy,
        )
