"""A Ray cluster on this machine, with the shape of a RayCluster manifest.

Real: Ray itself, one head and every worker as nodes of their own, the `ray start` lines that the KubeRay
operator would run (built by `k8s.operator` from rayStartParams and limits, so logical CPUs and GPUs are the
manifest's), the containers' plain environment, token authentication, the job API, health checks and metrics.

Stood in: pods are processes, all nodes share one address, so ports are free ones; memory and object store are
small; GPUs are logical, with no device behind them; the dashboard listens on the loopback interface; the
session lives in a private folder. Environment that refers to Secrets or to the pod is left out, and there is
no image: `environment` says where Python finds the code.

Nodes start one after another, each as a `ray start --block` process kept by pid, and end with the context.
Nothing here calls `ray stop`, which would end every Ray on the machine.
"""

import os
import secrets
import shutil
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, fields
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import urllib3

from k8s.operator import ExpandedPod, Role, ray_nodes
from ops.processes import ProcessFamily
from ops.ray_jobs import RayApi, RayApiError

START_SECONDS = 240.0
"""Longest wait for one node; a head takes 10 to 20 s on two idle cores."""
ATTEMPTS = 3
"""Ray ends a node that did not register within 30 s, which happens on a busy machine."""
POLL_SECONDS = 0.3
OBJECT_STORE_BYTES = 200_000_000
"""Per node; Ray refuses less than 75 MiB."""
NODE_MEMORY_BYTES = 2_000_000_000
"""What Ray schedules by; it limits nothing."""
LOG_LINES = 30

RAY_ENVIRONMENT = {
    "RAY_USAGE_STATS_ENABLED": "0",
    # `ray start` would wait for the dashboard before it starts the raylet, while Ray's client server ends the
    # head unless there is a raylet after 30 s: too short for ten Python processes on two busy cores. So it
    # does not wait ("Failed to start the dashboard" in its log); `local_ray` does.
    "RAY_DASHBOARD_STARTUP_TIMEOUT_S": "0",
    "RAY_DASHBOARD_SUBPROCESS_MODULE_WAIT_READY_TIMEOUT": "120",
    # A node of 44 logical CPUs would otherwise start dozens of idle Python processes ahead of the first task.
    "RAY_enable_worker_prestart": "0",
    "RAY_prestart_worker_first_driver": "0",
    # A worker without GPUs keeps the CUDA_VISIBLE_DEVICES of its user.
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
}


class LocalRayError(Exception):
    """The local Ray did not come up; the message ends with the last lines of the node's log."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What the manifest cannot say about this machine."""

    ray: Path
    """The `ray` executable."""
    logs: Path
    """Existing folder for the output of each `ray start`, and for all of Ray's logs after a failure."""
    environment: Mapping[str, str] = field(default_factory=dict)
    """Added to every node's environment; wins over the manifest's."""
    token: str | None = field(default_factory=lambda: secrets.token_hex(32))
    """For token authentication; None switches it off."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ports:
    """Free ports of one node. Ray's worker ports are left to the kernel, so no range has to be kept clear."""

    gcs: int
    dashboard: int
    client: int
    metrics: int
    agent: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """A started node."""

    name: str
    ports: Ports
    process: subprocess.Popen[bytes]
    log: Path


class NodeEnded(LocalRayError):
    """A node's process ended while the cluster was starting."""

    def __init__(self, node: Node) -> None:
        self.node = node
        super().__init__(_account(node, f"ended with code {node.process.returncode} while starting"))


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalRay:
    """A running cluster: head first, then the workers."""

    api: RayApi
    nodes: Sequence[Node]
    session: Path
    """Ray's own folder with the logs of every component; it goes with the cluster."""
    family: ProcessFamily


@contextmanager
def local_ray(*, manifest: Mapping[str, Any], options: Options) -> Iterator[LocalRay]:
    """The nodes of a RayCluster or RayJob manifest, up and registered; they end with the context.

    Raises LocalRayError when a node ends or stays silent while it starts.
    """
    head, *workers = [pod for pod in ray_nodes(dict(manifest)) for _ in range(pod.replicas)]
    # Ray's sockets live in the session, and a socket's path holds 103 characters: not in a long TMPDIR.
    with TemporaryDirectory(prefix="ray-", dir="/tmp", ignore_cleanup_errors=True) as folder:
        session = Path(folder)
        with _keeping_logs(session, options.logs), ProcessFamily() as family:
            cluster = _Cluster(session=session, options=options, family=family)
            cluster.add(head, name="head")
            for number, worker in enumerate(workers, start=1):
                cluster.add(worker, name=f"{worker.group}-{number}")
            for node in cluster.nodes:
                cluster.wait(until=partial(_is_healthy, node))
            yield LocalRay(api=cluster.api, nodes=cluster.nodes, session=session, family=family)


class _Cluster:
    """Starts nodes one after the other; the first is the head."""

    def __init__(self, *, session: Path, options: Options, family: ProcessFamily) -> None:
        self.nodes: list[Node] = []
        self._session = session
        self._options = options
        self._family = family

    @property
    def api(self) -> RayApi:
        dashboard = self.nodes[0].ports.dashboard
        return RayApi(address=f"http://127.0.0.1:{dashboard}", token=self._options.token)

    def add(self, pod: ExpandedPod, *, name: str) -> None:
        """Start a node and wait until the head lists it; one that ends meanwhile gets another chance."""
        for attempt in range(1, ATTEMPTS + 1):
            self.nodes.append(self._start(pod, name=name))
            try:
                self.wait(until=self._are_listed)
            except NodeEnded as error:
                failed = self.nodes.pop()
                if error.node is not failed or attempt == ATTEMPTS:
                    raise
            else:
                return

    def _start(self, pod: ExpandedPod, *, name: str) -> Node:
        ports = free_ports()
        head = self.nodes[0].ports if self.nodes else ports
        log = self._options.logs / f"{name}.log"
        arguments = start_arguments(pod, ports=ports, head=head, session=self._session, ray=self._options.ray)
        environment = node_environment(pod, head=head, options=self._options)
        process = self._family.start(arguments, environment=environment, log=log)
        return Node(name=name, ports=ports, process=process, log=log)

    def _are_listed(self) -> bool:
        try:
            return self.api.node_count() >= len(self.nodes)
        except RayApiError:
            return False

    def wait(self, *, until: Callable[[], bool]) -> None:
        """Raises NodeEnded when any node ends, LocalRayError when the newest takes too long."""
        deadline = time.monotonic() + START_SECONDS
        while not until():
            ended = next((node for node in self.nodes if node.process.poll() is not None), None)
            if ended is not None:
                raise NodeEnded(ended)
            if time.monotonic() > deadline:
                raise LocalRayError(_account(self.nodes[-1], f"was not ready after {START_SECONDS:.0f} s"))
            time.sleep(POLL_SECONDS)


@contextmanager
def _keeping_logs(session: Path, logs: Path) -> Iterator[None]:
    """When the body fails, Ray's own logs are kept, for the session goes."""
    try:
        yield
    except BaseException:
        for folder in session.glob("session_2*/logs"):
            shutil.copytree(folder, logs / "session", dirs_exist_ok=True)
        raise


def start_arguments(pod: ExpandedPod, *, ports: Ports, head: Ports, session: Path, ray: Path) -> list[str]:
    """The operator's `ray start` line with what differs on this machine."""
    overrides = {
        "metrics_export_port": str(ports.metrics),
        "dashboard_agent_listen_port": str(ports.agent),
        # 0 leaves the choice to the kernel; Ray's default range would meet that of the next node.
        "min_worker_port": "0",
        "max_worker_port": "0",
        "memory": str(NODE_MEMORY_BYTES),
        "object_store_memory": str(OBJECT_STORE_BYTES),
    }
    if pod.role is Role.HEAD:
        overrides |= {
            "port": str(ports.gcs),
            "dashboard_host": "127.0.0.1",
            "dashboard_port": str(ports.dashboard),
            "ray_client_server_port": str(ports.client),
            "temp_dir": str(session),
        }
    else:
        overrides |= {"address": f"127.0.0.1:{head.gcs}"}
    return [str(ray), *pod.start_command(**overrides)[1:]]


def free_ports() -> Ports:
    """Ports that nothing listens on now; all are held until the last is found, so that they differ."""
    with ExitStack() as held:
        listeners = [held.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in fields(Ports)]
        gcs, dashboard, client, metrics, agent = (listener.getsockname()[1] for listener in listeners)
    return Ports(gcs=gcs, dashboard=dashboard, client=client, metrics=metrics, agent=agent)


def node_environment(pod: ExpandedPod, *, head: Ports, options: Options) -> dict[str, str]:
    """This process's environment without Ray settings, then the pod's, then what differs on this machine."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("RAY_")}
    return {
        **inherited,
        **pod.environment,
        **RAY_ENVIRONMENT,
        "RAY_ADDRESS": f"127.0.0.1:{head.gcs}",
        "RAY_PORT": str(head.gcs),
        "FQ_RAY_IP": "127.0.0.1",
        # The job's entrypoint says `python`, as in the image.
        "PATH": os.pathsep.join([str(options.ray.parent), inherited.get("PATH", os.defpath)]),
        **token_environment(options.token),
        **options.environment,
    }


def token_environment(token: str | None) -> dict[str, str]:
    """What a Ray process or client needs to pass token authentication."""
    if token is None:
        return {"RAY_AUTH_MODE": "disabled"}
    return {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": token}


def _is_healthy(node: Node) -> bool:
    """The probe that KubeRay gives a pod: the node's agent vouches for its raylet."""
    url = f"http://127.0.0.1:{node.ports.agent}/api/healthz"
    try:
        return urllib3.request("GET", url, timeout=5, retries=False).status == 200
    except urllib3.exceptions.HTTPError:
        return False


def _account(node: Node, what: str) -> str:
    lines = node.log.read_text(errors="replace").splitlines()[-LOG_LINES:]
    return "\n".join([f"Ray node {node.name} {what}. The end of its log:", *lines])
