"""What belongs to a deployment, by the names that app.py gives its stacks."""

from stacks.settings import Settings

STACK_PARTS = (
    "network",
    "storage",
    "registry",
    "cluster",
    "hyperpod",
    "addons",
    "observability",
    "ray",
    "studio",
)
"""In order of life; destroying goes the other way."""


def stack_names(settings: Settings) -> tuple[str, ...]:
    return tuple(f"{settings.name}-{part}" for part in STACK_PARTS)
