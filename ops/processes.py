"""Processes a command starts: kept by pid, measured, and ended with all their descendants.

Ray starts children of its own, and some of them leave the process group or lose their parent, so a family
remembers every descendant that it saw while sampling memory. It ends those by pid and never by name: another
Ray on the same machine is not touched.
"""

import itertools
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from types import FrameType, TracebackType
from typing import Self

import psutil

SAMPLE_SECONDS = 0.5
POLL_SECONDS = 0.1
PROPORTIONAL_EVERY = 4
"""Samples of resident sets to one of proportional sets."""
TERM_GRACE_SECONDS = 20.0
KILL_GRACE_SECONDS = 5.0
ENDING_SIGNALS = (signal.SIGTERM, signal.SIGHUP)


class ProcessFamily:
    """A context: processes started in it, and whatever they started, are gone when it is left."""

    def __init__(self) -> None:
        self._started: list[subprocess.Popen[bytes]] = []
        self._seen: set[psutil.Process] = set()
        self._lock = threading.Lock()
        self._left = threading.Event()
        self._sampler = threading.Thread(target=self._sample_until_left, daemon=True)
        self.peak_rss_bytes = 0
        """Largest sum of resident sets; a page that several processes share counts once for each of them."""
        self.peak_memory_bytes = 0
        """Largest memory in use, shared pages counted once (Linux; elsewhere as `peak_rss_bytes`)."""

    def __enter__(self) -> Self:
        self._sampler.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        with deaf_to_signals():
            self._left.set()
            self._sampler.join()
            self._end()

    def start(
        self, arguments: Sequence[str], *, environment: Mapping[str, str], log: Path
    ) -> subprocess.Popen[bytes]:
        """Start a process in a session of its own, so that Ctrl-C ends it through this family."""
        with log.open("wb") as output:
            process = subprocess.Popen(
                arguments,
                env=dict(environment),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self._started.append(process)
        with self._lock, suppress(psutil.NoSuchProcess):
            self._seen.add(psutil.Process(process.pid))
        return process

    def _sample_until_left(self) -> None:
        for sample in itertools.count():
            if self._left.wait(SAMPLE_SECONDS):
                return
            members = self.members()
            self.peak_rss_bytes = max(self.peak_rss_bytes, _sum(members, _resident_bytes))
            if sample % PROPORTIONAL_EVERY == 0:
                self.peak_memory_bytes = max(self.peak_memory_bytes, _sum(members, _proportional_bytes))

    def members(self) -> set[psutil.Process]:
        """Members of the family that run now, including those whose parent has gone."""
        with self._lock:
            reached: set[psutil.Process] = set()
            for process in sorted(self._seen, key=psutil.Process.create_time):
                if process not in reached:
                    with suppress(psutil.NoSuchProcess):
                        reached.update(process.children(recursive=True))
            self._seen |= reached
            self._seen = {process for process in self._seen if _is_alive(process)}
            return set(self._seen)

    def _end(self) -> None:
        """SIGTERM to the started processes, then to what they left, then SIGKILL to all that is still there.

        The started ones come first and alone: Ray ends its own children in order, and its monitor would hang
        without the GCS.
        """
        self.members()  # A last look, before children lose the parents by which they are found.
        for popen in reversed(self._started):
            popen.terminate()
        _wait_while(lambda: any(popen.poll() is None for popen in self._started), TERM_GRACE_SECONDS)
        self._signal_all(signal.SIGTERM)
        _wait_while(self.members, KILL_GRACE_SECONDS)
        self._signal_all(signal.SIGKILL)
        _wait_while(self.members, KILL_GRACE_SECONDS)

    def _signal_all(self, number: signal.Signals) -> None:
        for process in self.members():
            with suppress(psutil.NoSuchProcess):
                process.send_signal(number)


def _wait_while(condition: Callable[[], object], seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while condition() and time.monotonic() < deadline:
        time.sleep(POLL_SECONDS)


def _sum(members: Iterable[psutil.Process], bytes_of: Callable[[psutil.Process], int]) -> int:
    total = 0
    for process in members:
        with suppress(psutil.Error):
            total += bytes_of(process)
    return total


def _resident_bytes(process: psutil.Process) -> int:
    return int(process.memory_info().rss)


def _proportional_bytes(process: psutil.Process) -> int:
    """A page that n processes share counts 1/n. Linux only, and slow: it walks the process's mappings."""
    return int(getattr(process.memory_full_info(), "pss", 0)) or _resident_bytes(process)


def _is_alive(process: psutil.Process) -> bool:
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


@contextmanager
def deaf_to_signals() -> Iterator[None]:
    """Ignore Ctrl-C and the ending signals for a bounded piece of cleaning up (main thread only)."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    with ExitStack() as restore:
        for number in (signal.SIGINT, *ENDING_SIGNALS):
            restore.callback(signal.signal, number, signal.signal(number, signal.SIG_IGN))
        yield


def exit_on_ending_signals() -> None:
    """Turn SIGTERM and SIGHUP into an exception, so that `with` blocks clean up as they do on Ctrl-C."""

    def leave(number: int, _frame: FrameType | None) -> None:
        sys.exit(128 + number)

    for number in ENDING_SIGNALS:
        signal.signal(number, leave)
