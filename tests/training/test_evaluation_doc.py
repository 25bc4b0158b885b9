"""The document's table is measured again, so it cannot grow old."""

from pathlib import Path

import pytest

from training.evaluation import POLICIES, PolicyName, play
from training.evaluation_sets import EVALUATION_SETS
from training.statistics import wilson_interval

DOCUMENT = Path(__file__).parent.parent.parent / "docs" / "evaluation.md"
ROWS = [
    [cell.strip() for cell in line.strip("|\n").split("|")]
    for line in DOCUMENT.read_text().splitlines()
    if line.startswith(("| easy", "| hard", "| large"))
]


def test_the_table_names_every_set_and_no_other():
    assert [row[0] for row in ROWS] == list(EVALUATION_SETS)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0])
def test_a_row_is_what_the_policies_do(row):
    name, _, size, turns, ceiling, *solved = row
    evaluation_set = EVALUATION_SETS[name]
    assert (int(size), int(turns)) == (evaluation_set.size, evaluation_set.max_turns)
    assert int(ceiling) == evaluation_set.ceiling
    for policy, count in zip(PolicyName, map(int, solved), strict=True):
        episodes = play(
            evaluation_set.mazes, policy=POLICIES[policy], max_turns=evaluation_set.max_turns, seed=0
        )
        assert sum(episode.solved for episode in episodes) == count


def test_the_claims_about_intervals_hold():
    interval = wilson_interval(successes=61, trials=64)
    assert (round(interval.low, 2), round(interval.high, 2)) == (0.87, 0.98)
    for successes, trials in ((497, 512), (251, 256)):
        assert wilson_interval(successes=successes, trials=trials).low > 0.95
        assert wilson_interval(successes=successes - 1, trials=trials).low < 0.95
