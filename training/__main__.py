"""`python -m training train|evaluate|report`: the same entry on a laptop, on one GPU and on a cluster."""

import argparse
import os
import signal
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn

import yaml

from training.checkpoints import newest_complete_step
from training.config import JobConfig, load_config
from training.evaluation import POLICIES, PolicyName, play
from training.evaluation_sets import EVALUATION_SETS
from training.faults import ConfigError, JobError
from training.report import render_report
from training.results import evaluation_of
from training.rewards import RewardWeights
from training.run_folder import RunFolder, write_atomically
from training.sizing import estimate

EXIT_FAILED = 1
EXIT_WRONG_CONFIG = 2
EXIT_INTERRUPTED = 130
EXIT_TERMINATED = 143


class Terminated(BaseException):
    """SIGTERM arrived: like KeyboardInterrupt, it ends the run through every `finally`."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; the exit code."""
    options = _parser().parse_args(arguments)
    try:
        code: int = options.command(options)
        return code
    except ConfigError as error:
        print(error, file=sys.stderr)
        return EXIT_WRONG_CONFIG
    except JobError as error:
        print(error, file=sys.stderr)
        return EXIT_FAILED


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m training", description=__doc__)
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    train = commands.add_parser(
        "train",
        help="train, grade before and after, write results.json and report.html",
        epilog="example: python -m training train --run-id first --profile rehearsal --shared-dir runs-here",
    )
    train.add_argument("--run-id", required=True, help="the run's folder; the same id resumes the run")
    _shared_dir(train)
    train.add_argument(
        "--profile",
        default=os.environ.get("TRAINING_PROFILE", "rehearsal"),
        help="a file of training/profiles (default: $TRAINING_PROFILE, else rehearsal)",
    )
    train.add_argument(
        "--set",
        action="append",
        default=[],
        type=_override,
        metavar="PATH=VALUE",
        help="change a choice of the profile, as --set seed=3 or --set trainer.grpo.steps=10",
    )
    train.add_argument("--dry-run", action="store_true", help="check everything, print the resolved config")
    train.set_defaults(command=_train)

    evaluate = commands.add_parser(
        "evaluate",
        help="play a set of fixed mazes with a policy that needs no model",
        epilog="example: python -m training evaluate --policy oracle --max-turns 15",
    )
    evaluate.add_argument("--policy", required=True, type=PolicyName, choices=list(PolicyName))
    evaluate.add_argument("--set", default="easy-64", choices=list(EVALUATION_SETS), help="default: easy-64")
    evaluate.add_argument("--max-turns", type=int, help="turns an episode may take (default: the set's own)")
    evaluate.add_argument("--seed", type=int, default=0, help="for what the policy draws (default: 0)")
    evaluate.add_argument("--json", action="store_true", help="print everything measured, as JSON")
    evaluate.set_defaults(command=_evaluate)

    report = commands.add_parser(
        "report",
        help="write report.html again from a finished run's results.json",
        epilog="example: python -m training report --run-id first --shared-dir runs-here",
    )
    report.add_argument("--run-id", required=True)
    _shared_dir(report)
    report.set_defaults(command=_report)
    return parser


def _shared_dir(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--shared-dir",
        type=Path,
        default=Path(os.environ.get("SHARED_DIR", ".")),
        help="the folder that every node sees (default: $SHARED_DIR, else here)",
    )


def _override(text: str) -> tuple[str, Any]:
    path, separator, value = text.partition("=")
    if not separator:
        raise argparse.ArgumentTypeError(f"{text!r} is not PATH=VALUE")
    return path, yaml.safe_load(value)


def _train(options: argparse.Namespace) -> int:
    config = load_config(options.profile, overrides=dict(options.set))
    folder = RunFolder(shared=options.shared_dir.resolve(), run_id=options.run_id)
    if options.dry_run:
        return _dry_run(config, folder)
    folder.claim(config)
    if done := folder.finished():
        print(f"{folder.run_id} has finished before: {done.after.summary()}\nReport: {folder.report}")
        return 0
    try:
        return _run(config, folder)
    except KeyboardInterrupt:
        return _interrupted(folder, EXIT_INTERRUPTED)
    except Terminated:
        return _interrupted(folder, EXIT_TERMINATED)


def _dry_run(config: JobConfig, folder: RunFolder) -> int:
    """Print the resolved config, what it needs, and SkyRL's own config, which SkyRL has accepted."""
    # Imported here: SkyRL takes seconds to load.
    from training.skyrl_config import RunPaths, as_text, skyrl_config  # noqa: PLC0415

    paths, model = RunPaths(folder.path), config.trainer.model
    skyrl = skyrl_config(
        config,
        model=model or "made by the warm start",
        paths=paths,
        allowed_tokens=None if model else [],
        evaluate_first=True,
    )
    documents = [config.model_dump(mode="json"), yaml.safe_load(as_text(skyrl))]
    if config.is_deployed:
        needs = {name: round(value, 1) for name, value in asdict(estimate(config.workload)).items()}
        documents.insert(1, {"needs_at_least": needs})
    print(yaml.safe_dump_all(documents, sort_keys=False), end="")
    return 0


def _run(config: JobConfig, folder: RunFolder) -> int:
    # Imported here: Ray and torch take seconds to load, which no other command needs.
    from training.skyrl_job import run_job  # noqa: PLC0415

    results = run_job(config, folder, before_work=_end_on_sigterm)
    print(f"Before: {results.before.summary()}\nAfter:  {results.after.summary()}\nReport: {folder.report}")
    return 0


def _end_on_sigterm() -> None:
    def terminate(_signal: int, _frame: FrameType | None) -> NoReturn:
        raise Terminated

    signal.signal(signal.SIGTERM, terminate)


def _interrupted(folder: RunFolder, code: int) -> int:
    step = newest_complete_step(folder.checkpoints)
    kept = f"step {step} is kept" if step else "nothing was saved yet"
    print(f"Interrupted: {kept}; run the same command again to go on.", file=sys.stderr)
    return code


def _evaluate(options: argparse.Namespace) -> int:
    chosen = EVALUATION_SETS[options.set]
    max_turns = options.max_turns or chosen.max_turns
    episodes = play(chosen.mazes, policy=POLICIES[options.policy], max_turns=max_turns, seed=options.seed)
    evaluation = evaluation_of(
        episodes, step=0, max_turns=max_turns, temperature=0.0, weights=RewardWeights()
    )
    line = f"{options.policy} on {chosen.name}: {evaluation.summary()}"
    print(evaluation.model_dump_json(indent=2) if options.json else line)
    return 0


def _report(options: argparse.Namespace) -> int:
    folder = RunFolder(shared=options.shared_dir.resolve(), run_id=options.run_id)
    results = folder.finished()
    if results is None:
        print(f"{folder.results} does not exist: the run has not finished. Run it first.", file=sys.stderr)
        return EXIT_FAILED
    write_atomically(folder.report, render_report(results))
    print(f"Report: {folder.report}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
