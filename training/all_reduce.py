"""An all-reduce among the devices of one machine, in processes that are killed when it hangs.

`python -m training.all_reduce RANKS BACKEND` does it once; `all_reduce_ends_within` guards it.
"""

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path

NO_PEER_TO_PEER = {"NCCL_P2P_DISABLE": "1"}
# Large enough to leave NCCL's low-latency protocol, where the hangs are not seen.
ELEMENTS = 4 * 2**20


class Backend(StrEnum):
    """Who moves the data."""

    NCCL = "nccl"
    """GPUs."""
    GLOO = "gloo"
    """CPUs: the test of this test."""


def all_reduce_ends_within(
    timeout_seconds: float, *, ranks: int, backend: Backend, environment: Mapping[str, str]
) -> bool:
    """Whether the all-reduce ends in time with the right sum; its processes are gone afterwards."""
    process = subprocess.Popen(
        [sys.executable, "-m", "training.all_reduce", str(ranks), backend],
        env={**os.environ, **environment},
        stdout=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        return process.wait(timeout=timeout_seconds) == 0
    except subprocess.TimeoutExpired:
        return False
    finally:
        _kill_group(process)


def _kill_group(process: subprocess.Popen[bytes]) -> None:
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        return
    finally:
        process.wait()


def _rank(rank: int, ranks: int, backend: str, meeting_point: str) -> None:
    import torch  # noqa: PLC0415  # only the child processes need it
    from torch import distributed  # noqa: PLC0415

    device = torch.device("cuda", rank) if backend == Backend.NCCL else torch.device("cpu")
    distributed.init_process_group(
        backend, init_method=f"file://{meeting_point}", rank=rank, world_size=ranks
    )
    values = torch.full((ELEMENTS,), float(rank + 1), device=device)
    distributed.all_reduce(values)
    expected = ranks * (ranks + 1) / 2
    if not bool((values == expected).all()):
        raise ArithmeticError(f"rank {rank}: the sum is {values[0].item()}, not {expected}")
    distributed.destroy_process_group()


def main() -> None:
    """One process a rank; an error in any of them is the exit code."""
    from torch.multiprocessing.spawn import spawn  # noqa: PLC0415

    ranks, backend = int(sys.argv[1]), sys.argv[2]
    with tempfile.TemporaryDirectory() as folder:
        meeting_point = str(Path(folder) / "meet")
        spawn(_rank, args=(ranks, backend, meeting_point), nprocs=ranks)  # type: ignore[no-untyped-call]


if __name__ == "__main__":
    main()
