"""The life of the walkthrough's stacks, through the real CDK CLI: bootstrap, deploy, update, destroy.

The tests of this module share one account and run in the order in which they stand.
"""

from collections.abc import Callable, Iterator

import pytest

from k8s.validation import validate
from stacks.settings import Settings
from tests.emulated.emulator import ACCOUNT_ID, Emulator, emulated_aws
from tests.emulated.ledger import Ledger
from tests.emulated.subject import Assembly, settings_of, with_instance_count
from tests.emulated.synthesis import Synthesize

REGION = "us-east-2"
ENVIRONMENT = "walkthrough"
STATEFUL = {
    "AWS::EC2::Subnet",
    "AWS::EC2::VPC",
    "AWS::ECR::Repository",
    "AWS::EKS::Cluster",
    "AWS::FSx::FileSystem",
    "AWS::S3::Bucket",
    "AWS::SageMaker::Cluster",
}
"""What loses data or running work when it is replaced."""

UPDATES: dict[str, tuple[Settings, dict[str, set[str]]]] = {
    "one more GPU worker": (
        with_instance_count(ENVIRONMENT, 4),
        {
            "hyperpod": {"AWS::SageMaker::Cluster", "AWS::CloudFormation::CustomResource"},
            "ray": {"Custom::AWSCDK-EKS-KubernetesResource"},
        },
    ),
    "faster file system": (
        settings_of(ENVIRONMENT, storage={"throughput_mbps_per_tib": 500}),
        {"storage": {"AWS::FSx::FileSystem"}},
    ),
    "newer image": (
        settings_of(ENVIRONMENT, image={"base_image": "docker.io/novaskyai/skyrl@sha256:" + "2" * 64}),
        {
            "registry": {"AWS::CodeBuild::Project", "AWS::CloudFormation::CustomResource"},
            "ray": {"Custom::AWSCDK-EKS-KubernetesResource"},
        },
    ),
    "more node metrics": (
        settings_of(ENVIRONMENT, observability={"metrics": {"nodeMetrics": "ADVANCED"}}),
        {"observability": {"AWS::EKS::Addon"}},
    ),
}
"""Change of settings -> stack's part of the name -> resource types that change, all in place."""


@pytest.fixture(scope="module")
def aws(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Emulator]:
    with emulated_aws(folder=tmp_path_factory.mktemp("aws"), region=REGION, seed=1) as emulator:
        yield emulator


@pytest.fixture(scope="module")
def assembly(synthesize: Synthesize) -> Assembly:
    return synthesize(settings_of(ENVIRONMENT))


@pytest.fixture(scope="module")
def cdk(aws: Emulator) -> Callable[..., str]:
    """Runs a CLI command on an assembly and gives what it printed."""

    def run(command: str, assembly: Assembly, *arguments: str, status: int = 0) -> str:
        completed = aws.cdk(command, "--app", str(assembly.folder), *arguments, check=False)
        output = completed.stdout + completed.stderr
        assert completed.returncode == status, output
        return output

    return run


def test_bootstrap_and_deploy_create_every_resource(
    aws: Emulator, assembly: Assembly, cdk: Callable[..., str], ledger: Ledger
) -> None:
    with ledger.scenario("bootstrap", aws.account):
        aws.cdk("bootstrap", f"aws://{ACCOUNT_ID}/{REGION}")
    with ledger.scenario(f"deploy {ENVIRONMENT}", aws.account):
        cdk("deploy", assembly, "--all", "--require-approval", "never")
    for name in assembly.stacks:
        stack = aws.engine.find_stack(name)
        assert stack.status == "CREATE_COMPLETE"
        assert stack.resources.keys() == assembly.template(name)["Resources"].keys()


def test_ray_runs_on_the_nodes_that_were_waited_for(aws: Emulator, assembly: Assembly) -> None:
    (cluster,) = aws.account.of_type("AWS::EKS::Cluster")
    state = aws.kubernetes.state(cluster.identity.ref)
    assert state["nodes"] == 4
    assert {"hyperpod-dependencies", "kuberay-operator"} <= state["releases"].keys()
    assert any(key.startswith("RayCluster/ray/") or key.startswith("RayJob/ray/") for key in state["objects"])


def test_manifests_that_kubectl_was_given_pass_the_validation(aws: Emulator) -> None:
    manifests = [
        manifest
        for call in aws.kubernetes.calls()
        if call["tool"] == "kubectl" and call["arguments"][0] in ("apply", "create")
        for manifest in call["objects"]
        if manifest["kind"] != "CustomResourceDefinition"
    ]
    assert {manifest["kind"] for manifest in manifests} >= {"Namespace", "PersistentVolumeClaim"}
    assert validate(manifests) == []


def test_second_deploy_changes_nothing(
    aws: Emulator, assembly: Assembly, cdk: Callable[..., str], ledger: Ledger
) -> None:
    with ledger.scenario("deploy again", aws.account) as row:
        output = cdk("deploy", assembly, "--all", "--require-approval", "never")
    assert output.count("(no changes)") == len(assembly.stacks)
    assert not row.actions


@pytest.mark.parametrize("name", UPDATES)
def test_update_touches_what_it_should_and_replaces_nothing(
    aws: Emulator, assembly: Assembly, synthesize: Synthesize, ledger: Ledger, name: str
) -> None:
    settings, expected = UPDATES[name]
    changed = synthesize(settings)
    changes = {stack: aws.driver.changes(stack, changed.template(stack)) for stack in changed.stacks}
    touched = {
        stack.removeprefix(f"{settings.name}-"): {change.resource_type for change in in_stack}
        for stack, in_stack in changes.items()
        if in_stack
    }
    assert touched == expected
    assert {change.replacement for in_stack in changes.values() for change in in_stack} == {"False"}
    aws.publish(changed)
    with ledger.scenario(f"update: {name}", aws.account):
        aws.driver.deploy_all(changed)
    with ledger.scenario(f"back from: {name}", aws.account):
        aws.driver.deploy_all(assembly)


def test_update_through_the_cli_shows_the_one_change(
    aws: Emulator, synthesize: Synthesize, cdk: Callable[..., str], ledger: Ledger
) -> None:
    faster = synthesize(UPDATES["faster file system"][0])
    with ledger.scenario("update through the CLI", aws.account) as row:
        output = cdk("deploy", faster, "maze-grpo-storage", "--exclusively", "--require-approval", "never")
    assert "UPDATE_COMPLETE" in output
    assert row.actions.total() == 1


def test_change_that_would_replace_state_is_shown_and_then_refused(
    aws: Emulator, synthesize: Synthesize, cdk: Callable[..., str], ledger: Ledger
) -> None:
    moved = synthesize(settings_of(ENVIRONMENT, network={"hyperpod_zone_id": "use2-az2"}))
    network = moved.stacks[0]
    output = cdk("diff", moved, network, "--method", "template", "--fail-on", "destructive", status=1)
    assert "AWS::EC2::Subnet Network/NodeSubnet/Subnet" in output
    before = dict(aws.account.resources)
    with ledger.scenario("move to another zone, refused", aws.account):
        output = cdk("deploy", moved, network, "--require-approval", "never", status=1)
    assert "InvalidSubnet.Conflict" in output
    assert {key for key in aws.account.resources if key[0] in STATEFUL} == {
        key for key in before if key[0] in STATEFUL
    }


def test_destroy_leaves_the_bootstrap_stack_and_nothing_else(
    aws: Emulator, assembly: Assembly, cdk: Callable[..., str], ledger: Ledger
) -> None:
    with ledger.scenario(f"destroy {ENVIRONMENT}", aws.account) as row:
        cdk("destroy", assembly, "--all", "--force")
    assert [stack.name for stack in aws.engine.live_stacks()] == ["CDKToolkit"]
    assert aws.left_behind() == []
    assert row.left == 0


def test_placeholder_digest_fails_with_what_to_do(
    aws: Emulator, synthesize: Synthesize, cdk: Callable[..., str], ledger: Ledger
) -> None:
    unedited = synthesize(settings_of(ENVIRONMENT, image={"base_image": f"docker.io/x@sha256:{'0' * 64}"}))
    with ledger.scenario("deploy with cdk.json's placeholder", aws.account):
        output = cdk("deploy", unedited, "maze-grpo-registry", "--require-approval", "never", status=1)
        assert "python -m ops pin" in output.replace("\n", " ")
        cdk("destroy", unedited, "--all", "--force")
    assert aws.left_behind() == []
