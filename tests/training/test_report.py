"""The report shows what was measured, and needs nothing but itself."""

import re
from datetime import UTC, datetime
from html.parser import HTMLParser

import pytest
import yaml

from training.config import load_config
from training.evaluation import POLICIES, PolicyName, play
from training.maze import published_mazes
from training.publish import publish, render_model_card
from training.report import render_report, telling_pairs
from training.results import Progress, Results, evaluation_of
from training.rewards import RewardWeights
from training.run_folder import RunFolder


def evaluation(policy, step):
    episodes = play(published_mazes(9), policy=POLICIES[policy], max_turns=20, seed=0)
    return evaluation_of(episodes, step=step, max_turns=20, temperature=0.0, weights=RewardWeights())


@pytest.fixture(scope="module")
def results():
    return Results(
        run_id="a-run",
        config=load_config("rehearsal"),
        versions={"python": "3.12.1"},
        commit="<script>alert(1)</script>",
        started_at=datetime(2026, 12, 1, tzinfo=UTC),
        finished_at=datetime(2026, 12, 2, tzinfo=UTC),
        progress=Progress(
            step=10,
            evaluations=(evaluation(PolicyName.GREEDY, 0), evaluation(PolicyName.ORACLE, 10)),
            steps=(),
        ),
    )


class References(HTMLParser):
    """Collects what a browser would load or link to, and checks that tags are balanced."""

    def __init__(self):
        super().__init__()
        self.references, self.open = [], []

    def handle_starttag(self, tag, attributes):
        self.references += [value for name, value in attributes if name in {"src", "href"}]
        if tag not in {"meta", "br"}:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_startendtag(self, _tag, attributes):
        self.references += [value for name, value in attributes if name in {"src", "href"}]


def test_the_report_is_one_well_formed_file_that_loads_nothing(results):
    html = render_report(results)
    parser = References()
    parser.feed(html)
    assert parser.references == []
    assert parser.open == []
    assert "url(" not in html
    assert "@import" not in html
    assert not re.search(r"<(script|link|iframe)\b", html)


def test_the_report_shows_the_measured_counts_with_their_intervals(results):
    html = render_report(results)
    before, after = results.before, results.after
    assert f"{before.solved} / 64" in html
    assert "64 / 64" in html
    assert f"{before.interval_95.low:.1%} to {before.interval_95.high:.1%}" in " ".join(html.split())
    assert after.solved == 64
    assert "&lt;script&gt;alert(1)" in html


def test_results_survive_json_and_lead_with_the_headline(results):
    text = results.model_dump_json()
    assert Results.model_validate_json(text) == results
    headline = results.model_dump(mode="json")["evaluation"]
    assert headline["after"]["solved"] == 64
    assert headline["before"]["solved"] == results.before.solved
    assert headline["paired"]["gained"] == 64 - results.before.solved
    assert headline["paired"]["lost"] == 0
    assert headline["before"]["interval_95"]["low"] == pytest.approx(results.before.interval_95.low)


def test_the_gallery_leads_with_what_changed(results):
    pairs = telling_pairs(results.before, results.after)
    changed = [not before.solved for before, _ in pairs]
    assert changed == sorted(changed, reverse=True)
    assert len(pairs) == 64
    broken_first = telling_pairs(results.after, results.before)
    assert broken_first[0][0].solved
    assert not broken_first[0][1].solved


def test_the_model_card_has_front_matter_and_the_measured_table(results):
    card = render_model_card(results, base_model="VisGym/visgym_model")
    _, front, body = card.split("---\n", 2)
    front_matter = yaml.safe_load(front)
    assert front_matter["base_model"] == "VisGym/visgym_model"
    (entry,) = front_matter["model-index"]
    assert entry["results"][0]["metrics"] == [{"type": "solved_share", "value": 1.0}]
    assert f"| Solved of 64 | {results.before.solved} | 64 |" in body
    assert "at temperature 0.0, with 20 turns" in body
    assert yaml.safe_load(body.split("```yaml\n")[1].split("```")[0])["profile"] == "rehearsal"


def test_a_model_without_a_base_names_none(results):
    assert "base_model" not in render_model_card(results, base_model=None)


def test_publishing_writes_the_results_last(results, tmp_path, monkeypatch):
    folder = RunFolder(shared=tmp_path, run_id="a-run")
    folder.path.mkdir(parents=True)
    publish(results, folder)
    assert folder.finished() == results
    assert folder.model_card.read_text() == render_model_card(results, base_model=None)

    def full_disk(*_):
        raise OSError("disk full")

    folder.results.unlink()
    monkeypatch.setattr("training.publish.render_report", full_disk)
    with pytest.raises(OSError, match="disk full"):
        publish(results, folder)
    assert folder.finished() is None
