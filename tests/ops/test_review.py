"""What a review says of real pairs of assemblies, and of input that is none."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from ops.__main__ import app
from ops.reviewing import markdown as comments
from ops.reviewing.markdown import markdown
from ops.reviewing.review import Review, compare

from .review_samples import DOCUMENT, Sample, comment, environment, rewrite, samples, synthesize

STORAGE = "maze-grpo-storage"


@pytest.fixture(scope="module")
def versions(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Folder of each sample, synthesized, and of the walkthrough as it is."""
    root = tmp_path_factory.mktemp("review")
    faster = {**environment(), "storage": {"throughput_mbps_per_tib": 500}}
    every = {"base": Sample(), **samples(), "faster file system": Sample(settings=faster)}
    return {name: synthesize(root / name, sample) for name, sample in every.items()}


@pytest.fixture
def review_of(versions: dict[str, Path]) -> Callable[[str], Review]:
    return lambda name: compare(versions["base"] / "cdk.out", versions[name] / "cdk.out")


def run(*arguments: object) -> Result:
    return CliRunner(env={"COLUMNS": "100"}).invoke(app, ["review", *map(str, arguments)])


def actions(review: Review) -> set[tuple[str, str, str]]:
    return {(each.stack, each.resource_type, str(each.action)) for each in review.resources}


# --- real assemblies --------------------------------------------------------------------------------------


def test_the_document_shows_the_comments_of_its_samples(versions: dict[str, Path]) -> None:
    text = DOCUMENT.read_text(encoding="utf-8")
    shown = {name: comment(versions["base"], versions[name]) for name in samples()}
    assert text == rewrite(text, shown), "write it anew: python -m tests.ops.review_samples"


def test_nothing_changes_between_an_assembly_and_itself(review_of: Callable[[str], Review]) -> None:
    review = review_of("base")
    assert review.resources == ()
    assert "No resource changes." in markdown(review)
    assert "per hour as before" in markdown(review)


def test_one_more_worker_changes_in_place_and_costs_its_price(review_of: Callable[[str], Review]) -> None:
    review = review_of("instance count")
    assert not review.is_refused
    assert actions(review) == {
        ("maze-grpo-hyperpod", "AWS::SageMaker::Cluster", "changed"),
        ("maze-grpo-hyperpod", "AWS::CloudFormation::CustomResource", "changed"),
        ("maze-grpo-ray", "Custom::AWSCDK-EKS-KubernetesResource", "changed"),
    }
    assert review.cost.before is not None
    assert review.cost.after is not None
    volume = 500 * 0.08 / 730
    assert review.cost.after - review.cost.before == pytest.approx(8.28608 + volume)


def test_a_security_group_rule_stands_first_and_whole(review_of: Callable[[str], Review]) -> None:
    text = markdown(review_of("security group rule"))
    assert text.count("### ") == 1
    section = text.partition("### IAM and security groups")[2]
    for part in ('"203.0.113.0/24"', "FromPort`: `absent` → `22`"):
        assert part in section


def test_another_zone_replaces_what_stands_in_it_through_exports(review_of: Callable[[str], Review]) -> None:
    review = review_of("file system")
    assert review.is_refused
    lost = {(each.stack, each.resource_type) for each in review.destructive}
    assert lost == {
        (STORAGE, "AWS::FSx::FileSystem"),
        ("maze-grpo-hyperpod", "AWS::SageMaker::Cluster"),
    }
    # Its subnets are replaced, but EKS may change them in place.
    assert ("maze-grpo-cluster", "AWS::EKS::Cluster", "REPLACED") not in actions(review)


def test_a_nested_create_only_property_replaces(review_of: Callable[[str], Review]) -> None:
    (change,) = review_of("faster file system").resources
    assert change.because == ("LustreConfiguration.PerUnitStorageThroughput",)


def test_the_exit_code_refuses_the_loss_of_data_unless_it_is_allowed(versions: dict[str, Path]) -> None:
    base, head = versions["base"], versions["file system"]
    pair = (base / "cdk.out", head / "cdk.out")
    assert run(*pair).exit_code == 1
    allowed = run(*pair, "--allow-destructive")
    assert allowed.exit_code == 0
    assert "**Allowed: a deploy would lose" in allowed.output


def test_json_has_what_the_comment_has(versions: dict[str, Path]) -> None:
    base, head = versions["base"], versions["instance count"]
    folders = (base / "cdk.out", head / "cdk.out", "--manifests", base / "dist", head / "dist")
    found = json.loads(run(*folders, "--json").output)
    assert found["is_refused"] is False
    assert {each["action"] for each in found["resources"]} == {"changed"}
    assert {each["name"].split(" ")[0] for each in found["manifests"]} == {
        "RayJob",
        "RayCluster",
        "ResourceQuota",
        "PodDisruptionBudget",
    }
    assert found["cost"]["after"] > found["cost"]["before"]


# --- small assemblies, for what the walkthrough does not change -------------------------------------------


def write(folder: Path, resources: dict[str, Any], *, region: str = "us-east-2") -> Path:
    folder.mkdir(parents=True)
    artifact = {
        "type": "aws:cloudformation:stack",
        "environment": f"aws://unknown-account/{region}",
        "properties": {"templateFile": "one.template.json"},
    }
    (folder / "manifest.json").write_text(json.dumps({"version": "55.0.0", "artifacts": {"one": artifact}}))
    (folder / "one.template.json").write_text(json.dumps({"Resources": resources}))
    return folder


BUCKET = {"Type": "AWS::S3::Bucket", "Properties": {"BucketName": "a"}}
QUEUE = {"Type": "AWS::SQS::Queue", "Properties": {"VisibilityTimeout": 30}}
KEY = {"Type": "AWS::KMS::Key", "Properties": {"KeyPolicy": {"Statement": [{"Action": "kms:Decrypt"}]}}}


@pytest.fixture
def small(tmp_path: Path) -> Callable[..., Review]:
    count = iter(range(10))

    def small(before: dict[str, Any], after: dict[str, Any], **head: str) -> Review:
        number = next(count)
        base = write(tmp_path / f"base{number}", before)
        return compare(base, write(tmp_path / f"head{number}", after, **head))

    return small


def test_a_destroyed_bucket_is_refused_even_when_it_is_kept(small: Callable[..., Review]) -> None:
    review = small({"Bucket": BUCKET | {"DeletionPolicy": "Retain"}, "Queue": QUEUE}, {"Queue": QUEUE})
    assert review.is_refused
    assert "is destroyed (the old one is kept by its policy)" in markdown(review)


def test_a_destroyed_queue_is_shown_and_allowed(small: Callable[..., Review]) -> None:
    review = small({"Bucket": BUCKET, "Queue": QUEUE}, {"Bucket": BUCKET})
    assert actions(review) == {("one", "AWS::SQS::Queue", "destroyed")}
    assert not review.is_refused


@pytest.mark.parametrize(
    "reference",
    [{"Ref": "Bucket"}, {"Fn::GetAtt": ["Bucket", "Arn"]}, {"Fn::Sub": "${Bucket}/*"}],
)
def test_a_replacement_goes_on_to_what_refers_to_it(
    small: Callable[..., Review], reference: dict[str, Any]
) -> None:
    policy = {"Type": "AWS::S3::BucketPolicy", "Properties": {"Bucket": reference}}
    renamed = {**BUCKET, "Properties": {"BucketName": "b"}}
    review = small({"Bucket": BUCKET, "Policy": policy}, {"Bucket": renamed, "Policy": policy})
    assert actions(review) == {
        ("one", "AWS::S3::Bucket", "REPLACED"),
        ("one", "AWS::S3::BucketPolicy", "REPLACED"),
    }


def test_another_type_under_the_same_name_is_a_replacement(small: Callable[..., Review]) -> None:
    (change,) = small({"Thing": BUCKET}, {"Thing": QUEUE}).resources
    assert (change.action, change.because) == ("REPLACED", ("Type",))


def test_another_region_destroys_and_makes_anew(small: Callable[..., Review]) -> None:
    review = small({"Bucket": BUCKET}, {"Bucket": BUCKET}, region="us-west-2")
    assert [each.action for each in review.resources] == ["destroyed", "added"]


def test_a_key_policy_is_a_matter_of_access(small: Callable[..., Review]) -> None:
    opened = {"Type": "AWS::KMS::Key", "Properties": {"KeyPolicy": {"Statement": [{"Action": "kms:*"}]}}}
    text = markdown(small({"Key": KEY}, {"Key": opened}))
    assert '`KeyPolicy.Statement[0].Action`: `"kms:Decrypt"` → `"kms:*"`' in text
    assert "### IAM and security groups" in text


def test_an_assembly_without_settings_has_no_cost(small: Callable[..., Review]) -> None:
    assert "Cost: unknown (base: it does not record its settings)." in markdown(small({}, {"Queue": QUEUE}))


def test_a_long_comment_is_cut_below_what_github_takes(
    small: Callable[..., Review], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(comments, "MAX_CHARACTERS", 2000)
    text = markdown(small({}, {f"Queue{number}": QUEUE for number in range(100)}))
    assert len(text) < 2200
    assert text.splitlines()[-1].startswith("Cut here: ")


# --- what is refused --------------------------------------------------------------------------------------


def _no_manifest(folder: Path) -> None:
    (folder / "manifest.json").unlink()


def _rewrite(name: str, text: str) -> Callable[[Path], None]:
    def harm(folder: Path) -> None:
        (folder / name).write_text(text)

    return harm


def _stage(folder: Path) -> None:
    stage = {"version": "55.0.0", "artifacts": {"assembly-prod": {"type": "cdk:cloud-assembly"}}}
    (folder / "manifest.json").write_text(json.dumps(stage))


@pytest.mark.parametrize(
    ("harm", "message"),
    [
        (_no_manifest, "has no manifest.json, so it is no cloud assembly. Synthesize it: make synth"),
        (_rewrite("manifest.json", "{"), "manifest.json cannot be read as JSON"),
        (_rewrite("manifest.json", '{"version": "55.0.0"}'), "has another schema than a cloud assembly's"),
        (_rewrite("manifest.json", "[]"), "has another schema than a cloud assembly's: the whole file"),
        (_rewrite("manifest.json", '{"version": "1", "artifacts": {}}'), "manifest.json lists no stack"),
        (_stage, "assembly-prod is an assembly inside the assembly"),
        (_rewrite("one.template.json", "{}"), "is no CloudFormation template: it has no object at Resources"),
    ],
)
def test_what_is_no_assembly_is_refused_in_a_line(
    tmp_path: Path, harm: Callable[[Path], None], message: str
) -> None:
    good = write(tmp_path / "good", {"Queue": QUEUE})
    bad = write(tmp_path / "bad", {"Queue": QUEUE})
    harm(bad)
    for pair in ((good, bad), (bad, good)):
        result = run(*pair)
        assert result.exit_code == 1
        assert message in result.output
        assert len(result.output.splitlines()) == 1


def test_a_folder_that_is_none_is_refused(tmp_path: Path) -> None:
    result = run(tmp_path / "none", tmp_path)
    assert (result.exit_code, "none is not a folder. Give one" in result.output) == (1, True)


@pytest.fixture
def assemblies(tmp_path: Path) -> tuple[Path, Path]:
    return write(tmp_path / "a", {"Queue": QUEUE}), write(tmp_path / "b", {"Queue": QUEUE})


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "has no *.yaml. Render the manifests"),
        ("a: [", "cannot be read as YAML"),
        ("kind: Job", "holds what is no Kubernetes object: no 'metadata'"),
    ],
)
def test_what_are_no_manifests_is_refused(
    assemblies: tuple[Path, Path], tmp_path: Path, text: str, message: str
) -> None:
    if text:
        (tmp_path / "one.yaml").write_text(text)
    result = run(*assemblies, "--manifests", tmp_path, tmp_path)
    assert (result.exit_code, message in result.output) == (1, True)
    assert "is not a folder" in run(*assemblies, "--manifests", tmp_path / "none", tmp_path).output


def test_objects_come_go_and_change(assemblies: tuple[Path, Path], tmp_path: Path) -> None:
    for name, words in (("before", "old same"), ("after", "same new")):
        (tmp_path / name).mkdir()
        objects = [f"kind: Pod\nmetadata: {{name: {word}, uid: {name}}}\n" for word in words.split()]
        (tmp_path / name / "pods.yaml").write_text("---\n".join(objects))
    text = run(*assemblies, "--manifests", tmp_path / "before", tmp_path / "after").output
    assert "| removed | Pod old |" in text
    assert '| changed | Pod same | `metadata.uid`: `"before"` → `"after"` |' in text
    assert "| added | Pod new |" in text
