"""The shell scripts that run in the account, run here in a scratch directory with stand-ins on PATH."""

import os
import shutil
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from stacks.chart_installer import SCRIPT
from stacks.lifecycle_script import ON_CREATE, SOURCE

type Run = Callable[..., subprocess.CompletedProcess[str]]


def put_stand_in(folder: Path, name: str, body: str = "") -> None:
    """A command that records its call in `calls` and then runs `body`."""
    path = folder / name
    path.write_text(f'#!/bin/bash\necho "{name} $*" >>"{folder}/calls"\n{body}\n')
    path.chmod(0o755)


def calls(folder: Path) -> list[str]:
    recorded = folder / "calls"
    return recorded.read_text().splitlines() if recorded.exists() else []


def run(script: Path, *, stand_ins: Path, environment: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["bash", str(script)],
        env={"PATH": f"{stand_ins}:{os.environ['PATH']}", "HOME": str(stand_ins), **environment},
        capture_output=True,
        text=True,
        check=False,
    )


class TestLifecycleScript:
    """`on_create.sh` on a node that is a directory."""

    @pytest.fixture
    def stand_ins(self, tmp_path: Path) -> Path:
        folder = tmp_path / "bin"
        folder.mkdir()
        for name in ("systemctl", "modprobe", "lctl"):
            put_stand_in(folder, name)
        return folder

    @pytest.fixture
    def node(self, tmp_path: Path) -> Path:
        root = tmp_path / "node"
        (root / "opt/sagemaker").mkdir(parents=True)
        (root / "var/lib/containerd").mkdir(parents=True)
        (root / "var/lib/containerd/content").write_text("layers")
        return root

    def start(self, node: Path, stand_ins: Path) -> subprocess.CompletedProcess[str]:
        return run(SOURCE / ON_CREATE, stand_ins=stand_ins, environment={"ROOT": str(node)})

    def test_images_and_pods_move_to_the_large_volume(self, node: Path, stand_ins: Path) -> None:
        result = self.start(node, stand_ins)
        assert result.returncode == 0, result.stderr
        for directory in ("var/lib/containerd", "var/lib/kubelet"):
            assert (node / directory).resolve() == (node / "opt/sagemaker" / directory).resolve()
        assert (node / "opt/sagemaker/var/lib/containerd/content").read_text() == "layers"

    def test_services_stop_before_the_move_and_the_network_of_lustre_comes_up(
        self, node: Path, stand_ins: Path
    ) -> None:
        self.start(node, stand_ins)
        assert calls(stand_ins) == [
            "systemctl stop kubelet containerd",
            "systemctl start containerd",
            "modprobe --all lnet lustre",
            "lctl network up",
        ]

    def test_a_second_run_changes_nothing(self, node: Path, stand_ins: Path) -> None:
        self.start(node, stand_ins)
        result = self.start(node, stand_ins)
        assert result.returncode == 0, result.stderr
        assert (node / "var/lib/containerd/content").read_text() == "layers"

    def test_a_node_without_a_data_volume_fails_and_says_so(self, node: Path, stand_ins: Path) -> None:
        shutil.rmtree(node / "opt/sagemaker")
        result = self.start(node, stand_ins)
        assert result.returncode != 0
        assert "no data volume" in (node / "var/log/provision/provisioning.log").read_text()

    def test_an_image_without_lustre_fails_and_says_so(self, node: Path, stand_ins: Path) -> None:
        put_stand_in(stand_ins, "modprobe", "exit 1")
        result = self.start(node, stand_ins)
        assert result.returncode != 0
        assert "no Lustre client" in result.stdout

    def test_it_downloads_nothing_and_has_unix_line_endings(self) -> None:
        text = (SOURCE / ON_CREATE).read_text()
        assert not {"curl", "wget", "pip", "yum", "dnf", "git", "aws"} & set(text.split())
        assert "\r" not in text
        assert text.startswith("#!/bin/bash\n")


class TestChartRelease:
    """`release.sh` with a real git repository and recorded calls of aws and helm."""

    @pytest.fixture
    def stand_ins(self, tmp_path: Path) -> Path:
        folder = tmp_path / "bin"
        folder.mkdir()
        # The tools arrive as a zip; the stand-in for unzip leaves an empty one, so PATH finds these.
        for name in ("aws", "unzip", "helm", "kubectl"):
            put_stand_in(folder, name)
        return folder

    @pytest.fixture
    def repository(self, tmp_path: Path) -> tuple[Path, str]:
        folder = tmp_path / "charts"
        chart = folder / "charts/one"
        chart.mkdir(parents=True)
        (chart / "Chart.yaml").write_text("name: one\nversion: 0.1.0\n")

        def git(*arguments: str) -> str:
            identity = ["-c", "user.name=t", "-c", "user.email=t@example.com"]
            command = ["git", "-C", str(folder), *identity, *arguments]
            return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()

        git("init", "--quiet")
        git("config", "uploadpack.allowAnySHA1InWant", "true")
        git("add", ".")
        git("commit", "--quiet", "--message", "one")
        return folder, git("rev-parse", "HEAD")

    @pytest.fixture
    def release(self, stand_ins: Path, repository: tuple[Path, str]) -> Run:
        folder, commit = repository

        def release(**changes: str) -> subprocess.CompletedProcess[str]:
            environment = {
                "ACTION": "install",
                "REPOSITORY": f"file://{folder}",
                "COMMIT": commit,
                "CHART_PATH": "charts/one",
                "RELEASE": "one",
                "NAMESPACE": "kube-system",
                "VALUES": '{"a": "b c"}',
                "CLUSTER_NAME": "maze",
                "TOOLS": "s3://bucket/tools.zip",
            }
            return run(SCRIPT / "release.sh", stand_ins=stand_ins, environment=environment | changes)

        return release

    def test_install_resolves_dependencies_then_upgrades_or_installs(
        self, release: Run, stand_ins: Path
    ) -> None:
        result = release()
        assert result.returncode == 0, result.stderr
        helm = [call for call in calls(stand_ins) if call.startswith("helm")]
        assert [call.split()[1] for call in helm] == ["dependency", "upgrade", "status"]
        assert "upgrade one" in helm[1]
        assert "--install --namespace kube-system --create-namespace --values" in helm[1]

    def test_values_reach_helm_unchanged(self, release: Run, stand_ins: Path, tmp_path: Path) -> None:
        copy = tmp_path / "values"
        put_stand_in(
            stand_ins,
            "helm",
            f'while (($#)); do [[ "$1" == --values ]] && cp "$2" "{copy}"; shift; done; exit 0',
        )
        assert release().returncode == 0
        assert copy.read_text() == '{"a": "b c"}'

    def test_uninstall_names_the_namespace_and_waits(self, release: Run, stand_ins: Path) -> None:
        result = release(ACTION="uninstall")
        assert result.returncode == 0, result.stderr
        assert calls(stand_ins)[-1] == (
            "helm uninstall one --namespace kube-system --ignore-not-found --wait --timeout 10m"
        )

    def test_crds_are_applied_server_side_and_no_release_is_made(self, release: Run, stand_ins: Path) -> None:
        result = release(ACTION="apply_crds")
        assert result.returncode == 0, result.stderr
        last = calls(stand_ins)[-1]
        assert last.startswith("kubectl apply --server-side --force-conflicts --filename ")
        assert last.endswith("/source/charts/one/crds")
        assert not [call for call in calls(stand_ins) if call.startswith("helm upgrade")]

    @pytest.mark.parametrize(
        ("changes", "message"),
        [
            ({"COMMIT": "v3.9.0"}, "COMMIT is not a full hash"),
            ({"COMMIT": "0" * 40}, "not our ref"),
            ({"CHART_PATH": "charts/two"}, "no chart at charts/two"),
            ({"ACTION": "reinstall"}, "unknown ACTION"),
        ],
    )
    def test_what_cannot_be_done_fails_the_build_with_a_reason(
        self, release: Run, changes: dict[str, str], message: str
    ) -> None:
        result = release(**changes)
        assert result.returncode != 0
        assert message in result.stderr

    def test_a_failing_helm_fails_the_build(self, release: Run, stand_ins: Path) -> None:
        put_stand_in(stand_ins, "helm", '[[ "$1" == upgrade ]] && exit 3; exit 0')
        assert release().returncode == 3
