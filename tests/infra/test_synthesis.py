"""What holds for every stack together."""

from pathlib import Path

from stacks.settings import load_settings
from tests.infra.conftest import Template, synthesize


def test_two_syntheses_are_byte_identical(tmp_path: Path) -> None:
    settings = load_settings()
    for run in ("first", "second"):
        synthesize(settings, tmp_path / run)
    first = sorted((tmp_path / "first").glob("*.template.json"))
    assert first
    for path in first:
        assert path.read_bytes() == (tmp_path / "second" / path.name).read_bytes(), path.name


def test_every_taggable_resource_carries_the_deployment(templates: dict[str, Template]) -> None:
    cluster = templates["hyperpod"]
    tagged = [r for r in cluster["Resources"].values() if r["Type"] == "AWS::SageMaker::Cluster"]
    assert "hyperpod-rl:deployment" in str(tagged[0]["Properties"]["Tags"])
