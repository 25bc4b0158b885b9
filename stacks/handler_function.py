"""The Lambda functions that run this project's handlers."""

from collections.abc import Sequence
from pathlib import Path

from aws_cdk import Duration
from aws_cdk import aws_iam as iam
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_logs as logs
from constructs import Construct


class HandlerFunction(lambda_.Function):
    """Runs `entry`, such as `log_cleanup.on_event`, of the package `handlers` with these permissions.

    The package is shipped whole and alone, so that its modules can import each other. Destroying the function
    loses nothing; its log goes with `log_group`.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        entry: str,
        timeout: Duration,
        log_group: logs.ILogGroup,
        statements: Sequence[iam.PolicyStatement],
    ) -> None:
        exclude = ["*", "!handlers", "!handlers/*.py"]
        super().__init__(
            scope,
            construct_id,
            runtime=lambda_.Runtime.PYTHON_3_14,
            code=lambda_.Code.from_asset(str(Path(__file__).parent), exclude=exclude),
            handler=f"handlers.{entry}",
            timeout=timeout,
            log_group=log_group,
            initial_policy=list(statements),
        )
