"""The entry point: a wrong setting ends it with lines, not with a traceback."""

import json
from pathlib import Path
from typing import Any

import pytest

import app
from stacks import settings
from stacks.settings import CDK_JSON


def cdk_json(folder: Path, **changes: Any) -> Path:
    content = json.loads(CDK_JSON.read_text())
    content["context"]["environments"]["walkthrough"] |= changes
    path = folder / "cdk.json"
    path.write_text(json.dumps(content))
    return path


@pytest.mark.parametrize(
    ("changes", "lines"),
    [
        ({"colour": "red"}, ["colour = red: is not a setting."]),
        (
            {"region": 1, "name": "Maze"},
            ["name = Maze: string should match pattern", "region = 1: input should be a valid string."],
        ),
    ],
)
def test_wrong_settings_end_the_synthesis_with_a_line_each(
    changes: dict[str, Any], lines: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = cdk_json(tmp_path, **changes)
    monkeypatch.setattr(app, "load_settings", lambda name: settings.load_settings(name, path))
    with pytest.raises(SystemExit) as end:
        app.main()
    first, *told = str(end.value.code).splitlines()
    assert first == "The settings in cdk.json are refused:"
    assert len(told) == len(lines)
    assert all(line.startswith(start) for line, start in zip(told, lines, strict=True))
    assert end.value.__cause__ is None, "the CLI would print a traceback"


def test_a_manifest_that_could_not_run_ends_the_synthesis_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("k8s.ray.training_entrypoint", lambda run_id: f"cd /shared && train {run_id}")
    with pytest.raises(SystemExit, match=r"RayJob ray/\S+: spec\.entrypoint: '&' in") as end:
        app.main()
    assert end.value.__cause__ is None, "the CLI would print a traceback"
