"""The end of a run: report, model card and results, in the run's folder."""

from pathlib import Path

import yaml
from jinja2 import Environment, FileSystemLoader, StrictUndefined

from training.report import render_report
from training.results import Evaluation, Results
from training.run_folder import RunFolder, write_atomically


def publish(results: Results, folder: RunFolder, *, base_model: str | None = None) -> None:
    """Write everything a finished run leaves for people. results.json comes last: it says that it is done."""
    write_atomically(folder.report, render_report(results))
    write_atomically(folder.model_card, render_model_card(results, base_model=base_model))
    write_atomically(folder.results, results.model_dump_json(indent=2))


def render_model_card(results: Results, *, base_model: str | None) -> str:
    """A model card in Markdown, with the front matter that the Hugging Face hub reads."""
    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent),
        autoescape=False,  # noqa: S701  # Markdown, from our own records
        undefined=StrictUndefined,
        trim_blocks=True,
        keep_trailing_newline=True,
    )
    environment.globals["share"] = _share
    return environment.get_template("model_card.md.j2").render(
        results=results,
        config=results.config,
        progress=results.progress,
        before=results.before,
        after=results.after,
        base_model=base_model,
        config_yaml=yaml.safe_dump(results.config.model_dump(mode="json"), sort_keys=False),
    )


def _share(evaluation: Evaluation) -> str:
    interval = evaluation.interval_95
    return f"{evaluation.solved_share:.1%}, {interval.low:.1%} to {interval.high:.1%}"
