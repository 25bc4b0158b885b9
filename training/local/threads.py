"""How many threads of torch a process of the rehearsal gets."""

import os

MOST_THREADS = 2
"""More hinder: the tiny model's matrices are too small to share."""


def threads_each(processes: int) -> int:
    """For processes that work at the same time. Engines and policy ranks take turns, so each count alone."""
    return max(1, min(MOST_THREADS, (os.cpu_count() or 1) // processes))
