"""A family of processes leaves nothing behind, however it is left."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from ops import processes
from ops.processes import ProcessFamily

# A child that leaves the group, outlives its parent and ignores SIGTERM, as the hardest case.
STUBBORN = """
import os, signal, sys, time
if os.fork() == 0:
    os.setsid()
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    open(sys.argv[1], "w").write(str(os.getpid()))
    time.sleep(600)
time.sleep(float(sys.argv[2]))
"""


SLEEP = [sys.executable, "-c", "import time; time.sleep(600)"]


def wait_for(condition: Callable[[], bool], seconds: float = 20) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "timed out"
        time.sleep(0.05)


def start_stubborn(family: ProcessFamily, folder: Path, *, parent_seconds: float = 600) -> psutil.Process:
    pid_file = folder / "pid"
    arguments = [sys.executable, "-c", STUBBORN, str(pid_file), str(parent_seconds)]
    family.start(arguments, environment=os.environ, log=folder / "log")
    wait_for(lambda: pid_file.exists() and pid_file.read_text() != "")
    child = psutil.Process(int(pid_file.read_text()))
    wait_for(lambda: child in family.members())
    return child


def is_gone(process: psutil.Process) -> bool:
    try:
        return process.status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


@pytest.fixture(autouse=True)
def short_grace(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "TERM_GRACE_SECONDS", 0.5)
    monkeypatch.setattr(processes, "SAMPLE_SECONDS", 0.1)


@pytest.mark.parametrize("error", [None, ValueError("boom"), KeyboardInterrupt()])
def test_descendants_are_ended_however_the_context_is_left(
    tmp_path: Path, error: BaseException | None
) -> None:
    children: list[psutil.Process] = []

    def body() -> None:
        with ProcessFamily() as family:
            children.append(start_stubborn(family, tmp_path))
            if error is not None:
                raise error

    if error is None:
        body()
    else:
        with pytest.raises(type(error)):
            body()
    assert is_gone(children[0])


def test_a_child_that_lost_its_parent_is_still_ended(tmp_path: Path) -> None:
    with ProcessFamily() as family:
        child = start_stubborn(family, tmp_path, parent_seconds=1)
        wait_for(lambda: child.ppid() != os.getpid() and len(family.members()) == 1)
    assert is_gone(child)


def test_a_process_of_someone_else_is_left_alone(tmp_path: Path) -> None:
    with subprocess.Popen(SLEEP) as stranger:
        with ProcessFamily() as family:
            family.start(SLEEP, environment=os.environ, log=tmp_path / "log")
        assert stranger.poll() is None
        stranger.kill()


def test_ctrl_c_while_ending_does_not_interrupt_the_ending(tmp_path: Path) -> None:
    with ProcessFamily() as family:
        child = start_stubborn(family, tmp_path)
        signaller = subprocess.Popen(["/bin/sh", "-c", f"sleep 0.2; kill -INT {os.getpid()}"])
        wait_for(lambda: signaller.pid > 0)
    assert signaller.wait() == 0
    assert is_gone(child)


def test_memory_of_the_whole_family_is_counted(tmp_path: Path) -> None:
    bulky = "import subprocess, sys; x = bytearray(60_000_000); import time; time.sleep(600)"
    parent = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {bulky!r}])"
    with ProcessFamily() as family:
        family.start([sys.executable, "-c", parent], environment=os.environ, log=tmp_path / "log")
        wait_for(lambda: min(family.peak_rss_bytes, family.peak_memory_bytes) > 60_000_000)
    assert family.peak_memory_bytes <= family.peak_rss_bytes


def test_sigterm_becomes_an_exit_so_that_contexts_clean_up() -> None:
    before = {number: signal.getsignal(number) for number in processes.ENDING_SIGNALS}
    try:
        processes.exit_on_ending_signals()
        with pytest.raises(SystemExit) as stopped:
            signal.raise_signal(signal.SIGTERM)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    assert stopped.value.code == 128 + signal.SIGTERM
