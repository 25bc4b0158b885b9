"""Every order that CloudFormation may choose creates and deletes the stacks: a missing edge fails."""

from pathlib import Path

import pytest

from tests.emulated.emulator import emulated_aws
from tests.emulated.ledger import Ledger
from tests.emulated.subject import settings_of
from tests.emulated.synthesis import Synthesize

QUICK_SEEDS = [101]
SEEDS = range(200, 212)


def create_and_delete(
    synthesize: Synthesize, folder: Path, ledger: Ledger, environment: str, seed: int, *, twice: bool = False
) -> None:
    assembly = synthesize(settings_of(environment))
    with emulated_aws(folder=folder, region="us-east-2", seed=seed) as aws:
        aws.custom_resources.send_twice = twice
        aws.prepare_without_cli(assembly)
        events = "every event twice" if twice else f"order {seed}"
        with ledger.scenario(f"{environment}, {events}", aws.account) as row:
            aws.driver.deploy_all(assembly)
            aws.driver.destroy_all(assembly)
        assert row.left == 0
        assert [item for item in aws.left_behind() if "cdk-" not in item] == []


@pytest.mark.parametrize("seed", QUICK_SEEDS)
def test_small_is_created_and_deleted(
    synthesize: Synthesize, tmp_path: Path, ledger: Ledger, seed: int
) -> None:
    create_and_delete(synthesize, tmp_path, ledger, "small", seed)


@pytest.mark.exhaustive
@pytest.mark.parametrize("environment", ["walkthrough", "small"])
@pytest.mark.parametrize("seed", SEEDS)
def test_any_order_creates_and_deletes(
    synthesize: Synthesize, tmp_path: Path, ledger: Ledger, environment: str, seed: int
) -> None:
    create_and_delete(synthesize, tmp_path, ledger, environment, seed)


@pytest.mark.exhaustive
def test_events_that_are_delivered_twice_do_no_harm(
    synthesize: Synthesize, tmp_path: Path, ledger: Ledger
) -> None:
    create_and_delete(synthesize, tmp_path, ledger, "walkthrough", 300, twice=True)
