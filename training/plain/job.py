"""The plain trainer as a job: actors placed, run done, results and report written."""

from collections.abc import Callable
from datetime import UTC, datetime

from training.config import JobConfig
from training.plain.crew import crew
from training.plain.loop import run
from training.provenance import commit, versions
from training.publish import publish
from training.results import Results
from training.run_folder import RunFolder
from training.self_test import Expectation, run_self_test


def run_job(config: JobConfig, folder: RunFolder, *, before_work: Callable[[], None]) -> Results:
    """Do what is left of the run and write its results.

    `before_work` is called once Ray is connected, because connecting replaces signal handlers.
    """
    started_at = datetime.now(UTC)
    with crew(config) as actors:
        before_work()
        # The GPUs are logical here and nothing is looked for on them; a checkpoint is some hundred kB.
        run_self_test(folder.shared, Expectation(gpus_per_node=0, nodes=1, free_shared_gib=0.1))
        progress = run(config, folder, actors)
    results = Results(
        run_id=folder.run_id,
        config=config,
        versions=versions(),
        commit=commit(),
        started_at=started_at,
        finished_at=datetime.now(UTC),
        progress=progress,
    )
    publish(results, folder)
    return results
