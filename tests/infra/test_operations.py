"""What the commands for people assume about the stacks holds."""

from ops.cost import INTERFACE_ENDPOINTS
from ops.deployment import stack_names
from stacks.interface_endpoints import SERVICES
from stacks.settings import load_settings
from tests.infra.conftest import Template


def test_operations_know_every_stack(templates: dict[str, Template], environment: str) -> None:
    settings = load_settings(environment)
    optional = {f"{settings.name}-studio"} - {f"{settings.name}-{part}" for part in templates}
    assert set(stack_names(settings)) - optional == {f"{settings.name}-{part}" for part in templates}


def test_the_cost_estimate_counts_the_interface_endpoints() -> None:
    assert len(SERVICES) == INTERFACE_ENDPOINTS
