"""Engines and accounts for the tests of this folder."""

import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.emulated.account import Account
from tests.emulated.backing import Backing
from tests.emulated.custom_resources import CustomResources
from tests.emulated.driver import Driver
from tests.emulated.engine import Engine
from tests.emulated.functions import Functions
from tests.emulated.handlers import ResourceHandlers
from tests.emulated.hyperpod import HyperPod
from tests.emulated.identities import IdentityFactory
from tests.emulated.kubernetes import Kubernetes
from tests.emulated.ledger import Ledger
from tests.emulated.node_functions import NodeFunctions
from tests.emulated.responses import ResponseInbox
from tests.emulated.synthesis import Synthesize, memoized

REGION = "us-east-2"
_LEDGER = pytest.StashKey[Ledger]()


def pytest_configure(config: pytest.Config) -> None:
    config.stash[_LEDGER] = Ledger()


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    """The table of what was created, changed, deleted and left."""
    ledger = config.stash[_LEDGER]
    if ledger.rows:
        terminalreporter.section("emulated AWS")
        for line in ledger.table():
            terminalreporter.write_line(line)


@pytest.fixture(scope="session")
def ledger(pytestconfig: pytest.Config) -> Ledger:
    """Where scenarios note what they did."""
    return pytestconfig.stash[_LEDGER]


@pytest.fixture(scope="session")
def synthesize(tmp_path_factory: pytest.TempPathFactory) -> Synthesize:
    """Settings -> assembly, each synthesized once."""
    return memoized(tmp_path_factory.mktemp)


def _no_service(name: str) -> Any:
    raise AssertionError(f"this engine has no moto behind it, and something called {name}")


@pytest.fixture
def inbox() -> Iterator[ResponseInbox]:
    """An address for answers of custom resources."""
    inbox = ResponseInbox()
    yield inbox
    inbox.close()


@pytest.fixture
def make_driver(tmp_path: Path, inbox: ResponseInbox) -> Callable[[int], Driver]:
    """Engines without moto, the CLI or functions: for templates of types that need none of them."""

    def make(seed: int) -> Driver:
        account = Account()
        kubernetes = Kubernetes(folder=tmp_path / "kubernetes", account=account)
        functions = Functions(
            account=account,
            folder=tmp_path,
            read_object=lambda *_: _no_service("s3"),
            environment={},
            on_invoke=lambda _: None,
        )
        handlers = ResourceHandlers(
            account=account,
            identities=IdentityFactory(account="123456789012", region=REGION, chance=random.Random(seed)),
            backing=Backing(
                clients=_no_service,
                region=REGION,
                kubernetes=kubernetes,
                hyperpod=HyperPod(account=account, kubernetes=kubernetes),
            ),
            custom_resources=CustomResources(
                account=account,
                functions=functions,
                node_functions=NodeFunctions(s3=None, ecr=None),
                inbox=inbox,
            ),
        )
        engine = Engine(
            account=account,
            account_id="123456789012",
            region=REGION,
            handlers=handlers,
            ssm_parameter=lambda _: "30",
            seed=seed,
        )
        return Driver(engine=engine)

    return make


@pytest.fixture
def driver(make_driver: Callable[[int], Driver]) -> Driver:
    """One such engine."""
    return make_driver(0)
