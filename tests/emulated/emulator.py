"""Everything together: moto's server, the CloudFormation endpoint, and the CDK CLI pointed at both."""

import logging
import os
import random
import subprocess
import time
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import boto3
from moto.server import ThreadedMotoServer

from tests.emulated.account import Account, Resource
from tests.emulated.backing import Backing
from tests.emulated.code_build import CodeBuild
from tests.emulated.custom_resources import CustomResources
from tests.emulated.driver import Driver
from tests.emulated.engine import Engine
from tests.emulated.functions import Functions
from tests.emulated.handlers import ResourceHandlers
from tests.emulated.hyperpod import HyperPod
from tests.emulated.identities import IdentityFactory
from tests.emulated.kubernetes import Kubernetes
from tests.emulated.loopback import LoopbackServer
from tests.emulated.node_functions import NodeFunctions
from tests.emulated.responses import ResponseInbox
from tests.emulated.server import CloudFormationServer
from tests.emulated.services import serve
from tests.emulated.subject import Assembly

ACCOUNT_ID = "123456789012"
REPOSITORY = Path(__file__).parents[2]
CDK = REPOSITORY / "node_modules" / ".bin" / "cdk"


@dataclass(frozen=True, kw_only=True)
class Emulator:
    """One emulated account and region."""

    account: Account
    engine: Engine
    server: CloudFormationServer
    services: LoopbackServer
    """CodeBuild and SageMaker."""
    kubernetes: Kubernetes
    functions: Functions
    custom_resources: CustomResources
    folder: Path
    environment: Mapping[str, str]
    """Environment variables that point any AWS SDK at the emulation."""

    def client(self, service: str) -> Any:
        """A boto3 client of the emulated account."""
        return _client(service, self.environment["AWS_ENDPOINT_URL"], self.engine.region)

    @property
    def driver(self) -> Driver:
        """For runs that ask nothing of the CLI."""
        return Driver(engine=self.engine)

    def prepare_without_cli(self, assembly: Assembly) -> None:
        """What `cdk bootstrap` and the CLI's upload of assets leave behind, as far as deployments use it."""
        self.client("s3").create_bucket(
            Bucket=self._assets_bucket,
            CreateBucketConfiguration={"LocationConstraint": self.engine.region},
        )
        self.client("ssm").put_parameter(Name="/cdk-bootstrap/hnb659fds/version", Value="30", Type="String")
        self.publish(assembly)

    def publish(self, assembly: Assembly) -> None:
        """Upload the assembly's assets, as the CLI does before it deploys."""
        for key, content in assembly.files().items():
            self.client("s3").put_object(Bucket=self._assets_bucket, Key=key, Body=content)

    @property
    def _assets_bucket(self) -> str:
        return f"cdk-hnb659fds-assets-{ACCOUNT_ID}-{self.engine.region}"

    def left_behind(self) -> list[str]:
        """Everything that lives without a stack: retained, orphaned, or made by a service or a handler."""
        owned = {
            entry.resource.key for stack in self.engine.live_stacks() for entry in stack.resources.values()
        }
        unowned = {
            f"{resource.resource_type} {resource.identity.ref}"
            for resource in self.account.resources.values()
            if resource.key not in owned
        }
        in_services = {f"{kind} {name}" for kind, name in self._listed() if (kind, name) not in owned}
        return sorted(unowned | in_services)

    def _listed(self) -> Iterator[tuple[str, str]]:
        """Type and name of what the services themselves list."""
        for group in self.client("logs").describe_log_groups()["logGroups"]:
            yield "AWS::Logs::LogGroup", group["logGroupName"]
        for bucket in self.client("s3").list_buckets()["Buckets"]:
            yield "AWS::S3::Bucket", bucket["Name"]
        for repository in self.client("ecr").describe_repositories()["repositories"]:
            yield "AWS::ECR::Repository", repository["repositoryName"]
        for parameter in self.client("ssm").describe_parameters()["Parameters"]:
            yield "AWS::SSM::Parameter", parameter["Name"]

    def cdk(self, *arguments: str, check: bool = True) -> "subprocess.CompletedProcess[str]":
        """Run the CDK CLI; its output is in the error when it fails and `check` is set."""
        completed = subprocess.run(
            [str(CDK), *arguments, "--ci", "--no-color", "--no-notices"],
            cwd=self.folder,
            env={**os.environ, **self.environment},
            capture_output=True,
            text=True,
            check=False,
            timeout=900,
        )
        if self.engine.errors:
            raise ExceptionGroup("the emulator itself failed", self.engine.errors)
        if check and completed.returncode:
            raise AssertionError(f"cdk {' '.join(arguments)}:\n{completed.stdout}{completed.stderr}")
        return completed


@contextmanager
def emulated_aws(*, folder: Path, region: str, seed: int = 0) -> Iterator[Emulator]:
    """Start an empty account; it ends with the block."""
    logging.getLogger("werkzeug").setLevel(logging.ERROR)  # a line for each request, otherwise
    moto = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    moto.start()
    _host, port = moto.get_host_and_port()
    url = f"http://localhost:{port}"
    _forget_earlier_runs(url)
    emulator = _assemble(folder, url, region, seed)
    try:
        yield emulator
    finally:
        emulator.server.close()
        emulator.services.close()
        emulator.functions.close()
        emulator.custom_resources.inbox.close()
        moto.stop()


def _forget_earlier_runs(moto_url: str) -> None:
    """moto's state belongs to the process, not to the server."""
    request = urllib.request.Request(f"{moto_url}/moto-api/reset", method="POST")  # noqa: S310  loopback
    urllib.request.urlopen(request, timeout=30).close()  # noqa: S310


def _assemble(folder: Path, moto_url: str, region: str, seed: int) -> Emulator:
    def client(service: str) -> Any:
        return _client(service, moto_url, region)

    def read_object(bucket: str, key: str) -> bytes:
        content: bytes = client("s3").get_object(Bucket=bucket, Key=key)["Body"].read()
        return content

    def ssm_parameter(name: str) -> str:
        value: str = client("ssm").get_parameter(Name=name)["Parameter"]["Value"]
        return value

    account = Account()
    kubernetes = Kubernetes(folder=folder / "kubernetes", account=account)
    hyperpod = HyperPod(account=account, kubernetes=kubernetes)
    environment = {
        **_environment(folder, moto_url, region),
        "EMULATED_KUBERNETES": str(kubernetes.folder),
    }
    code_build = CodeBuild(
        account=account,
        folder=folder / "builds",
        read_object=read_object,
        environment=environment,
        write_log=lambda group, stream, lines: _write_lines(client("logs"), group, stream, lines),
    )
    services = serve({**code_build.operations(), **hyperpod.operations()})
    environment = {
        **environment,
        "AWS_ENDPOINT_URL_CODEBUILD": services.url,
        "AWS_ENDPOINT_URL_SAGEMAKER": services.url,
        "AWS_ENDPOINT_URL_CLOUDTRAIL": services.url,  # where the CLI looks for causes of a failure
    }
    backing = Backing(clients=client, region=region, kubernetes=kubernetes, hyperpod=hyperpod)
    functions = Functions(
        account=account,
        folder=folder / "functions",
        read_object=read_object,
        environment=environment,
        on_invoke=lambda function: backing.write_to_log_group(_log_group_of(function)),
    )
    custom_resources = CustomResources(
        account=account,
        functions=functions,
        node_functions=NodeFunctions(s3=client("s3"), ecr=client("ecr")),
        inbox=ResponseInbox(),
    )
    handlers = ResourceHandlers(
        account=account,
        identities=IdentityFactory(account=ACCOUNT_ID, region=region, chance=random.Random(seed)),
        backing=backing,
        custom_resources=custom_resources,
    )
    engine = Engine(
        account=account,
        account_id=ACCOUNT_ID,
        region=region,
        handlers=handlers,
        ssm_parameter=ssm_parameter,
        seed=seed,
    )
    server = CloudFormationServer(engine=engine, read_object=read_object)
    return Emulator(
        account=account,
        engine=engine,
        server=server,
        services=services,
        kubernetes=kubernetes,
        functions=functions,
        custom_resources=custom_resources,
        folder=folder,
        environment={**environment, "AWS_ENDPOINT_URL_CLOUDFORMATION": server.url},
    )


def _environment(folder: Path, moto_url: str, region: str) -> dict[str, str]:
    return {
        "AWS_ACCESS_KEY_ID": "emulated",
        "AWS_SECRET_ACCESS_KEY": "emulated",
        "AWS_REGION": region,
        "AWS_DEFAULT_REGION": region,
        "AWS_EC2_METADATA_DISABLED": "true",
        "AWS_ENDPOINT_URL": moto_url,
        "AWS_ENDPOINT_URL_S3_FOR_CLOUDFORMATION": moto_url,
        "AWS_CONFIG_FILE": os.devnull,
        "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
        "CDK_DISABLE_VERSION_CHECK": "1",
        "CDK_DISABLE_CLI_TELEMETRY": "1",
        "CDK_HOME": str(folder / "cdk-home"),
        "HOME": str(folder),
    }


@cache
def _client(service: str, endpoint: str, region: str) -> Any:
    return boto3.client(
        service,
        endpoint_url=endpoint,
        region_name=region,
        aws_access_key_id="emulated",
        aws_secret_access_key="emulated",
    )


def _write_lines(logs: Any, group: str, stream: str, lines: list[str]) -> None:
    logs.create_log_stream(logGroupName=group, logStreamName=stream)
    now = int(time.time() * 1000)
    events = [{"timestamp": now, "message": line} for line in lines if line]
    logs.put_log_events(logGroupName=group, logStreamName=stream, logEvents=events)


def _log_group_of(function: Resource) -> str:
    """Lambda writes here, whether a template declares the group or not."""
    default = f"/aws/lambda/{function.identity.ref}"
    group: str = function.properties.get("LoggingConfig", {}).get("LogGroup", default)
    return group
