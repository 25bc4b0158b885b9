"""The walkthrough's workload as props, snapshots as YAML files, and figures that a run prints at its end."""

from collections.abc import Callable
from typing import Any

import pytest
from syrupy.assertion import SnapshotAssertion
from syrupy.extensions.single_file import SingleFileSnapshotExtension, WriteMode

from k8s.props import NodeGroup, RayWorkload, SharedStorage, StagedArtifact, Taint, TrainingRun
from k8s.render import manifests

_MEASURED = pytest.StashKey[list[str]]()


@pytest.fixture(scope="session")
def measured(pytestconfig: pytest.Config) -> Callable[[str], None]:
    """Takes a line for the end of the run, where figures are seen without looking for them."""
    return pytestconfig.stash.setdefault(_MEASURED, []).append


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    for line in config.stash.get(_MEASURED, []):
        terminalreporter.write_line(f"measured: {line}")


class YamlFile(SingleFileSnapshotExtension):
    """One YAML file a snapshot, as a reviewer reads manifests."""

    file_extension = "yaml"
    _write_mode = WriteMode.TEXT


@pytest.fixture
def yaml_snapshot(snapshot: SnapshotAssertion) -> SnapshotAssertion:
    return snapshot.use_extension(YamlFile)


@pytest.fixture(scope="session")
def workload() -> RayWorkload:
    return RayWorkload(
        deployment="maze-grpo",
        namespace="ray",
        image="registry.example/training:1",
        ray_version="2.57.0",
        head=NodeGroup(
            name="cpu-head",
            instance_type="ml.r5d.16xlarge",
            count=1,
            vcpus=64,
            memory_gib=512,
            max_pods=49,
        ),
        workers=NodeGroup(
            name="gpu-workers",
            instance_type="ml.g7e.12xlarge",
            count=3,
            vcpus=48,
            memory_gib=512,
            max_pods=63,
            gpus=2,
            efa_interfaces=1,
            taints=(Taint(key="nvidia.com/gpu", value="present"),),
        ),
        storage=SharedStorage(
            file_system_id="fs-0123456789abcdef0",
            dns_name="fs-0123456789abcdef0.fsx.us-east-2.amazonaws.com",
            mount_name="abcdefgh",
            capacity_gib=2400,
        ),
        run=TrainingRun(run_id="maze-1", profile="walkthrough", deadline_seconds=172_800),
        staged=(
            StagedArtifact(
                source="hf://VisGym/visgym_model@main/mixed_qwen3vl", folder="models/visgym/mixed_qwen3vl"
            ),
        ),
    )


@pytest.fixture(scope="session")
def rendered(workload: RayWorkload) -> dict[str, list[dict[str, Any]]]:
    """The manifests by chart. Shared between tests: copy before changing."""
    return manifests(workload)
