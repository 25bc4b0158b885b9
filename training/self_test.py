"""Before a GPU hour is spent: does every node offer what the job counts on? Bounded in time.

Each node of the Ray cluster is asked in a task of its own for its GPUs, driver, package versions, free disk
and its view of the shared folder; `faults_in` judges the answers together, a line per fault. GPU nodes then
run an all-reduce among their own GPUs, in a process that is killed when it hangs: some cards (RTX PRO 6000
among them) are known to hang in peer-to-peer copies. If it passes without them, the job runs so, and says so.
"""

import os
import shutil
import socket
import subprocess
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from training.all_reduce import NO_PEER_TO_PEER, Backend, all_reduce_ends_within
from training.faults import Fault, JobError
from training.provenance import versions

PROBE_SECONDS = 120
ALL_REDUCE_SECONDS = 90
GIB = 2**30
# CUDA 13.0, which torch 2.13 is built for, needs driver branch r580 or newer.
MIN_DRIVER = 580


class SelfTestFailed(JobError):
    """The cluster does not offer what the job counts on; the message has a line per fault."""


@dataclass(frozen=True, kw_only=True)
class Expectation:
    """What the job counts on."""

    gpus_per_node: int
    """0 for a rehearsal: logical GPUs are not looked for."""
    nodes: int
    """Nodes with GPUs; more may be there."""
    free_shared_gib: float
    """Room on the shared file system for checkpoints and exports."""
    free_local_gib: float = 5.0
    """Room on each node's own disk for Ray's logs and spilled objects."""


@dataclass(frozen=True, kw_only=True)
class Gpu:
    """One card as nvidia-smi reports it."""

    model: str
    driver: str
    memory_mib: int


@dataclass(frozen=True, kw_only=True)
class NodeFacts:
    """One node's answers."""

    node: str
    gpus: tuple[Gpu, ...]
    versions: Mapping[str, str]
    sees_token: bool
    """Whether the file that the driver wrote into the shared folder is there."""
    free_shared_gib: float
    free_local_gib: float


# --- asked on a node --------------------------------------------------------------------------------------


def probe(shared: Path, token: str) -> NodeFacts:
    """This node's answers; leaves a file of its own in the shared folder, which the driver looks for."""
    node = socket.gethostname()
    folder = shared / "self-test" / token
    sees_token = (folder / "driver").exists()
    if sees_token:
        (folder / f"node-{node}-{os.getpid()}").write_text(node, encoding="utf-8")
    return NodeFacts(
        node=node,
        gpus=installed_gpus(),
        versions=versions(),
        sees_token=sees_token,
        free_shared_gib=shutil.disk_usage(shared).free / GIB if shared.exists() else 0.0,
        free_local_gib=shutil.disk_usage("/tmp").free / GIB,  # noqa: S108  # where Ray keeps its session
    )


def installed_gpus() -> tuple[Gpu, ...]:
    """The cards of this node by nvidia-smi; none where the command is missing or finds no driver."""
    command = shutil.which("nvidia-smi")
    if command is None:
        return ()
    query = [command, "--query-gpu=name,driver_version,memory.total", "--format=csv,noheader,nounits"]
    run = subprocess.run(query, capture_output=True, text=True, check=False, timeout=PROBE_SECONDS / 2)
    return parse_nvidia_smi(run.stdout) if run.returncode == 0 else ()


def parse_nvidia_smi(text: str) -> tuple[Gpu, ...]:
    """Rows of `name, driver_version, memory.total` in MiB."""
    rows = (line.rsplit(", ", 2) for line in text.splitlines() if line.strip())
    return tuple(Gpu(model=model, driver=driver, memory_mib=int(memory)) for model, driver, memory in rows)


# --- judged by the driver ---------------------------------------------------------------------------------


def faults_in(nodes: Sequence[NodeFacts], expected: Expectation) -> list[Fault]:
    """What is wrong with the cluster, node by node and then between the nodes."""
    gpu_nodes = [node for node in nodes if node.gpus] if expected.gpus_per_node else []
    return [
        *(fault for node in nodes for fault in _node_faults(node, expected)),
        *(fault for node in gpu_nodes for fault in _gpu_faults(node, expected)),
        *_too_few_gpu_nodes(gpu_nodes, expected),
        *_differences(nodes, gpu_nodes),
    ]


def _node_faults(node: NodeFacts, expected: Expectation) -> Iterator[Fault]:
    if not node.sees_token:
        yield Fault(
            field=f"{node.node}.shared",
            value="no file",
            rule="does not show what the driver wrote into the shared folder",
            remedy="Mount the same file system on every node, writable.",
        )
    for name, free, needed in (
        ("shared", node.free_shared_gib, expected.free_shared_gib),
        ("local", node.free_local_gib, expected.free_local_gib),
    ):
        if free < needed:
            yield Fault(
                field=f"{node.node}.free_{name}_gib",
                value=round(free, 1),
                rule=f"is less than the {needed:.1f} GiB this job needs",
                remedy="Free space or give more.",
            )


def _gpu_faults(node: NodeFacts, expected: Expectation) -> Iterator[Fault]:
    if len(node.gpus) < expected.gpus_per_node:
        yield Fault(
            field=f"{node.node}.gpus",
            value=len(node.gpus),
            rule=f"is less than the {expected.gpus_per_node} GPUs that trainer.gpus_per_node counts on",
            remedy="Replace the node, or correct the profile.",
        )
    for gpu in node.gpus:
        if int(gpu.driver.split(".")[0]) < MIN_DRIVER:
            yield Fault(
                field=f"{node.node}.driver",
                value=gpu.driver,
                rule=f"is older than r{MIN_DRIVER}, which CUDA 13 needs",
                remedy="Update the node's image.",
            )


def _too_few_gpu_nodes(gpu_nodes: Sequence[NodeFacts], expected: Expectation) -> Iterator[Fault]:
    if expected.gpus_per_node and len(gpu_nodes) < expected.nodes:
        yield Fault(
            field="nodes",
            value=len(gpu_nodes),
            rule=f"with a working GPU driver are fewer than the {expected.nodes} the job needs",
            remedy="Look at nvidia-smi on the workers; a lost GPU shows there.",
        )


def _differences(nodes: Sequence[NodeFacts], gpu_nodes: Sequence[NodeFacts]) -> Iterator[Fault]:
    """What must be equal on all nodes and is not."""
    packages = sorted({package for node in nodes for package in node.versions})
    compared: dict[str, dict[str, str]] = {
        f"version of {package}": {node.node: node.versions.get(package, "none") for node in nodes}
        for package in packages
    }
    compared["GPU model"] = {node.node: node.gpus[0].model for node in gpu_nodes}
    compared["GPU driver"] = {node.node: node.gpus[0].driver for node in gpu_nodes}
    for name, values in compared.items():
        if len(set(values.values())) > 1:
            listed = ", ".join(f"{node} {value}" for node, value in values.items())
            yield Fault(
                field=name,
                value=listed,
                rule="differs between nodes",
                remedy="Run the same image and node image everywhere.",
            )


# --- the whole test ---------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class SelfTest:
    """A passed test."""

    nodes: tuple[NodeFacts, ...]
    environment: Mapping[str, str]
    """What the training must be started with: NCCL_P2P_DISABLE where peer-to-peer copies hang."""


def run_self_test(shared: Path, expected: Expectation) -> SelfTest:
    """Ask every node of the connected Ray cluster, judge, and try the GPUs' all-reduce.

    Raises SelfTestFailed with every fault found, or when a node does not answer in time.
    """
    token = uuid.uuid4().hex
    folder = shared / "self-test" / token
    folder.mkdir(parents=True)
    try:
        (folder / "driver").write_text(token, encoding="utf-8")
        nodes = tuple(_ask_every_node(probe, shared, token, timeout_seconds=PROBE_SECONDS))
        written = len(list(folder.glob("node-*")))
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    faults = faults_in(nodes, expected)
    if not faults and written < len(nodes):
        faults = [_unwritten(written, len(nodes))]
    if faults:
        raise SelfTestFailed("\n".join(map(str, faults)))
    settings = _settings_for_all_reduce(expected.gpus_per_node) if expected.gpus_per_node > 1 else {}
    return SelfTest(nodes=nodes, environment=settings)


def _unwritten(written: int, nodes: int) -> Fault:
    return Fault(
        field="shared",
        value=f"{written} of {nodes} files",
        rule="shows the driver fewer files than the nodes wrote",
        remedy="Mount the same file system on every node, not copies.",
    )


def _settings_for_all_reduce(gpus: int) -> Mapping[str, str]:
    """The environment in which the GPUs of every node finish an all-reduce."""
    for settings in ({}, NO_PEER_TO_PEER):
        answers = _ask_every_node(_all_reduce_on_node, gpus, settings, timeout_seconds=2 * ALL_REDUCE_SECONDS)
        if all(answers):
            if settings:
                print("GPUs hang in peer-to-peer copies: NCCL_P2P_DISABLE=1 is set, all-reduce is slower.")
            return settings
    raise SelfTestFailed(
        f"all-reduce of {gpus} GPUs = no end in {ALL_REDUCE_SECONDS} s, nor without peer-to-peer copies. "
        "Replace the node; `dmesg | grep NVRM` shows which card has failed."
    )


def _all_reduce_on_node(gpus: int, settings: Mapping[str, str]) -> bool:
    """True on nodes without cards: the head has nothing to try."""
    if not installed_gpus():
        return True
    # Ray hides all cards from a task that asks for none.
    cards = {"CUDA_VISIBLE_DEVICES": ",".join(map(str, range(gpus)))}
    environment = {**cards, **settings}
    return all_reduce_ends_within(
        ALL_REDUCE_SECONDS, ranks=gpus, backend=Backend.NCCL, environment=environment
    )


def _ask_every_node(question: Any, *arguments: object, timeout_seconds: float) -> list[Any]:
    """The answers of all living nodes. Raises SelfTestFailed naming those that stay silent."""
    import ray  # noqa: PLC0415  # the judging above needs no Ray
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy  # noqa: PLC0415

    ask = ray.remote(question)
    pending = {
        ask.options(
            num_cpus=0,
            max_retries=0,
            scheduling_strategy=NodeAffinitySchedulingStrategy(node["NodeID"], soft=False),
        ).remote(*arguments): node["NodeManagerHostname"]
        for node in ray.nodes()  # type: ignore[no-untyped-call]
        if node["Alive"]
    }
    ready, silent = ray.wait(list(pending), num_returns=len(pending), timeout=timeout_seconds)
    if silent:
        names = ", ".join(sorted(pending[reference] for reference in silent))
        raise SelfTestFailed(
            f"nodes = {names}: did not answer within {timeout_seconds} s. Look at their pods and disks."
        )
    return list(ray.get(ready))
