"""Assemblies, each synthesized once per run: synthesis costs more than most of what is done with it."""

from collections.abc import Callable
from pathlib import Path

from stacks.settings import Settings
from tests.emulated.subject import Assembly, synthesize

Synthesize = Callable[[Settings], Assembly]


def memoized(make_folder: Callable[[str], Path]) -> Synthesize:
    """A function that synthesizes each settings once, into a new folder."""
    done: dict[str, Assembly] = {}

    def assembly_of(settings: Settings) -> Assembly:
        key = settings.model_dump_json()
        if key not in done:
            done[key] = synthesize(settings, make_folder(settings.name))
        return done[key]

    return assembly_of
