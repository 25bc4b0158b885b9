"""Prints what a run has written, as one JSON object: `python read_progress.py /shared/runs/<run id>`.

`ops status` sends this text to the Ray head, which has the shared file system; it needs the standard library
only. Checkpoints are SkyRL's `checkpoints/global_step_<n>`.
"""

import json
import re
import sys
import time
from pathlib import Path
from typing import Any

STEP_FOLDER = re.compile(r"global_step_([0-9]+)")


def read_progress(run: Path, *, now: float) -> dict[str, Any]:
    """Ages are in seconds. What is not there is left out."""
    found: dict[str, Any] = {"finished": (run / "results.json").exists()}
    matches = ((STEP_FOLDER.fullmatch(path.name), path) for path in run.glob("checkpoints/global_step_*"))
    steps = [(int(match[1]), path) for match, path in matches if match]
    if steps:
        step, folder = max(steps)
        found |= {"checkpoint_step": step, "checkpoint_age_seconds": now - folder.stat().st_mtime}
    found |= _last_step(run / "progress.json")
    written = [path.stat().st_mtime for path in run.rglob("*") if path.is_file()]
    return found | ({"last_write_age_seconds": now - max(written)} if written else {})


def _last_step(progress: Path) -> dict[str, Any]:
    rows = json.loads(progress.read_text(encoding="utf-8"))["steps"] if progress.exists() else []
    return {"solved_share": rows[-1]["solved_share"]} if rows else {}


if __name__ == "__main__":
    print(json.dumps(read_progress(Path(sys.argv[1]), now=time.time())))
