"""The image registry and the build of the training image in the account."""

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from aws_cdk import Environment, IgnoreMode, SymlinkFollowMode
from aws_cdk import FileSystem as CdkFileSystem
from aws_cdk.assertions import Match, Template
from syrupy.assertion import SnapshotAssertion

from stacks.image_build import BUILDSPEC, CONTEXT, BuildArguments, context_excludes
from stacks.registry import RegistryStack
from stacks.settings import Removal, Settings, load_settings
from tests.infra.conftest import flagged_app

TOOLS = Path(sys.executable).parent
HASH = re.compile(r"[0-9a-f]{64}")


def synthesize(settings: Settings) -> dict[str, Any]:
    stack = RegistryStack(
        flagged_app(), "registry", settings=settings, env=Environment(region=settings.region)
    )
    return dict(Template.from_stack(stack).to_json())


@pytest.fixture(scope="module")
def template() -> dict[str, Any]:
    return synthesize(load_settings())


def only(template: dict[str, Any], resource_type: str) -> dict[str, Any]:
    found = [each for each in template["Resources"].values() if each["Type"] == resource_type]
    assert len(found) == 1, f"{len(found)} of {resource_type}"
    resource: dict[str, Any] = found[0]
    return resource


def environment_of(project: dict[str, Any]) -> dict[str, Any]:
    variables = project["Properties"]["Environment"]["EnvironmentVariables"]
    return {variable["Name"]: variable["Value"] for variable in variables}


def test_repository_keeps_tags_scans_and_stays_small(template: dict[str, Any]) -> None:
    repository = only(template, "AWS::ECR::Repository")
    properties = repository["Properties"]
    assert properties["ImageTagMutability"] == "IMMUTABLE"
    assert properties["ImageScanningConfiguration"] == {"ScanOnPush": True}
    assert properties["EmptyOnDelete"] is True
    assert repository["DeletionPolicy"] == "Delete"
    rules = json.loads(properties["LifecyclePolicy"]["LifecyclePolicyText"])["rules"]
    assert [(rule["selection"]["tagStatus"], rule["selection"]["countNumber"]) for rule in rules] == [
        ("untagged", 1),
        ("any", 10),
    ]


def test_retained_repository_keeps_its_images() -> None:
    settings = load_settings().model_copy(update={"removal": Removal.RETAIN})
    repository = only(synthesize(settings), "AWS::ECR::Repository")
    assert repository["DeletionPolicy"] == "Retain"
    assert repository["Properties"]["EmptyOnDelete"] is False


def test_project_has_room_and_time_for_a_cuda_image(template: dict[str, Any]) -> None:
    project = only(template, "AWS::CodeBuild::Project")["Properties"]
    assert project["Environment"]["ComputeType"] == "BUILD_GENERAL1_XLARGE"
    assert project["Environment"]["PrivilegedMode"] is True
    assert project["TimeoutInMinutes"] == 120


def test_project_and_buildspec_change_only_on_purpose(
    template: dict[str, Any], snapshot: SnapshotAssertion
) -> None:
    project = only(template, "AWS::CodeBuild::Project")["Properties"]
    normalised = json.loads(HASH.sub("<hash>", json.dumps(project)))
    for variable in normalised["Environment"]["EnvironmentVariables"]:
        if variable["Name"] == "IMAGE_TAG":  # changes with every file of training/
            variable["Value"] = "<hash of the content>"
    assert normalised == snapshot


def test_build_waits_for_the_roles_policy(template: dict[str, Any]) -> None:
    build = only(template, "AWS::CloudFormation::CustomResource")
    assert any("ProjectRoleDefaultPolicy" in name for name in build["DependsOn"])


def test_build_outlasts_the_project_so_that_its_log_explains(template: dict[str, Any]) -> None:
    machine = json.dumps(only(template, "AWS::StepFunctions::StateMachine"))
    attempts = int(re.search(r'MaxAttempts\\*":(\d+)', machine).group(1))  # type: ignore[union-attr]
    interval = int(re.search(r'IntervalSeconds\\*":(\d+)', machine).group(1))  # type: ignore[union-attr]
    assert attempts * interval >= 120 * 60


def test_image_uri_names_the_tag_that_is_built(template: dict[str, Any]) -> None:
    build = only(template, "AWS::CloudFormation::CustomResource")["Properties"]
    assert json.dumps(template["Outputs"]["ImageUri"]["Value"]).count(f":{build['ImageTag']}") == 1
    assert environment_of(only(template, "AWS::CodeBuild::Project"))["IMAGE_TAG"] == build["ImageTag"]


def test_handlers_may_start_and_read_this_build_only(template: dict[str, Any]) -> None:
    Template.from_json(template).has_resource_properties(
        "AWS::IAM::Policy",
        {
            "PolicyDocument": {
                "Statement": [
                    {
                        "Action": ["codebuild:BatchGetBuilds", "codebuild:StartBuild"],
                        "Effect": "Allow",
                        "Resource": {"Fn::GetAtt": [Match.string_like_regexp("TrainingImageProject"), "Arn"]},
                    },
                    {
                        "Action": "ecr:DescribeImages",
                        "Effect": "Allow",
                        "Resource": {"Fn::GetAtt": [Match.string_like_regexp("Images"), "Arn"]},
                    },
                    Match.object_like({"Action": "logs:GetLogEvents"}),
                ]
            }
        },
    )


def context_hash(folder: Path) -> str:
    return CdkFileSystem.fingerprint(
        str(folder),
        exclude=context_excludes(),
        ignore_mode=IgnoreMode.DOCKER,
        follow=SymlinkFollowMode.NEVER,
    )


def test_tag_follows_what_goes_into_the_image(tmp_path: Path) -> None:
    context = tmp_path / "training"
    shutil.copytree(CONTEXT, context)
    arguments = BuildArguments(base_image="base@sha256:1")
    before = arguments.tag(context_hash=context_hash(context))

    (context / "__pycache__").mkdir(exist_ok=True)
    (context / "__pycache__" / "maze.cpython-312.pyc").write_bytes(b"compiled")
    (context / "requirements-local.txt").write_text("only for laptops")
    assert arguments.tag(context_hash=context_hash(context)) == before

    assert BuildArguments(base_image="base@sha256:2").tag(context_hash=context_hash(context)) != before
    (context / "__init__.py").write_text('"""Changed."""')
    assert arguments.tag(context_hash=context_hash(context)) != before


def test_tag_depends_on_the_build_steps_too(tmp_path: Path) -> None:
    context = tmp_path / "training"
    shutil.copytree(CONTEXT, context)
    before = context_hash(context)
    (context / "image" / "buildspec.yaml").write_text("version: '0.2'")
    assert context_hash(context) != before


def test_buildspec_is_sound_bash(tmp_path: Path) -> None:
    steps = yaml.safe_load(BUILDSPEC.read_text())
    script = tmp_path / "build.sh"
    commands = [command for phase in steps["phases"].values() for command in phase["commands"]]
    script.write_text("\n".join(["#!/usr/bin/env bash", *commands, ""]))
    # SC2154: the project sets these variables.
    run = subprocess.run(
        [TOOLS / "shellcheck", "--exclude=SC2154", str(script)], capture_output=True, text=True, check=False
    )
    assert run.returncode == 0, run.stdout


def test_build_may_look_up_the_image_that_serves_as_its_cache(template: dict[str, Any]) -> None:
    policy = next(
        resource
        for name, resource in template["Resources"].items()
        if name.startswith("TrainingImageProjectRoleDefaultPolicy")
    )
    assert "ecr:DescribeImages" in json.dumps(policy)


def test_buildspec_builds_with_the_arguments_the_dockerfile_declares() -> None:
    steps = yaml.safe_load(BUILDSPEC.read_text())
    commands = " ".join(steps["phases"]["build"]["commands"])
    given = set(re.findall(r"--build-arg (\w+)", commands))
    dockerfile = (CONTEXT / "image" / "Dockerfile").read_text()
    without_default = set(re.findall(r"^ARG (\w+)$", dockerfile, flags=re.MULTILINE))
    assert without_default <= given
