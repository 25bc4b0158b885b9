"""The run: warm start, evaluation, GRPO steps, checkpoints, evaluation; from where it was left, if it was.

The algorithm is GRPO as DeepSeekMath has it, on-policy: a group of episodes in the same maze, advantages
normalised by the group's mean and standard deviation and given to every token of the episode, PPO's clipped
objective, one pass over the samples in a few minibatches. Left out: the KL term and its reference model.
"""

import hashlib
import itertools
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from statistics import fmean

from tqdm import tqdm

from training.config import JobConfig
from training.evaluation_sets import mazes_never_trained_on
from training.faults import JobError
from training.maze import HELD_OUT_SEEDS, Episode, Maze, maze_for, training_mazes
from training.plain.advantages import group_advantages
from training.plain.crew import Crew
from training.results import Evaluation, Progress, StepMetrics, WarmStart, evaluation_of, reward_of
from training.run_folder import RunFolder, write_atomically

HELD_OUT_MAZES = 64
PACKAGE = Path(__file__).parent.parent
WARM_START_CODE = ("actions.py", "maze.py", "plain/policy.py", "plain/imitation.py", "plain/learner.py")


class WarmStartFailed(JobError):
    """Imitation did not reach the share of solved mazes that the profile asks for."""


def run(config: JobConfig, folder: RunFolder, crew: Crew) -> Progress:
    """Do what is left of the run; the progress at its end."""
    progress = _resumed(folder, crew) or _started(config, folder, crew)
    steps = config.trainer.grpo.steps
    bar = tqdm(total=steps, initial=progress.step, desc="GRPO", unit="step", mininterval=1)
    with bar:
        for step in range(progress.step + 1, steps + 1):
            progress = _step(config, crew, progress, step)
            if step % config.trainer.checkpoint_every == 0 or step == steps:
                folder.save_checkpoint(progress, save_weights=crew.save)
            bar.update()
            bar.set_postfix_str(_postfix(progress))
    return progress


def _resumed(folder: RunFolder, crew: Crew) -> Progress | None:
    checkpoint = folder.newest_checkpoint()
    if checkpoint is None:
        return None
    crew.load(checkpoint.weights)
    step = checkpoint.progress.step
    tqdm.write(f"Resuming {folder.run_id} from step {step}.")
    return checkpoint.progress.model_copy(update={"resumed_from": (*checkpoint.progress.resumed_from, step)})


def _started(config: JobConfig, folder: RunFolder, crew: Crew) -> Progress:
    warm_start = _warm_start(config, folder.shared / "cache" / "warm-start", crew)
    before = _evaluate(config, crew, step=0)
    tqdm.write(f"Before training: {before.summary()}")
    progress = Progress(step=0, warm_start=warm_start, evaluations=(before,), steps=())
    folder.save_checkpoint(progress, save_weights=crew.save)
    return progress


def _step(config: JobConfig, crew: Crew, progress: Progress, step: int) -> Progress:
    metrics = _grpo_step(config, crew, step)
    evaluations = progress.evaluations
    if step % config.evaluation.every_steps == 0 or step == config.trainer.grpo.steps:
        evaluations = (*evaluations, _evaluate(config, crew, step=step))
        tqdm.write(f"After step {step}: {evaluations[-1].summary()}")
    return progress.model_copy(
        update={"step": step, "steps": (*progress.steps, metrics), "evaluations": evaluations}
    )


def _grpo_step(config: JobConfig, crew: Crew, step: int) -> StepMetrics:
    grpo = config.trainer.grpo
    started = time.monotonic()
    mazes = [maze for maze in _mazes_of(config, step) for _ in range(grpo.samples_per_maze)]
    episodes, by_worker, samples = crew.play(mazes, temperature=grpo.temperature, stream=f"step {step}")
    played = time.monotonic()
    advantages = [_advantages(config, part) for part in by_worker]
    update = crew.update(step, advantages, samples)
    rewards = [reward_of(episode, config.reward) for episode in episodes]
    return StepMetrics(
        step=step,
        solved_share=fmean(episode.solved for episode in episodes),
        mean_reward=fmean(rewards),
        mean_turns=fmean(len(episode.turns) for episode in episodes),
        groups_without_signal=_share_without_signal(advantages, grpo.samples_per_maze),
        rollout_seconds=played - started,
        learn_seconds=time.monotonic() - played,
        **asdict(update),
    )


def _mazes_of(config: JobConfig, step: int) -> Iterator[Maze]:
    """The training mazes of a step: a function of seed and step, so a resumed run sees the same ones."""
    source = training_mazes(
        size=config.maze.size,
        seed=f"{config.seed} step {step}",
        exclude=mazes_never_trained_on(config.maze.size),
    )
    return itertools.islice(source, config.trainer.grpo.mazes_per_step)


def _advantages(config: JobConfig, episodes: Sequence[Episode]) -> list[float]:
    """The advantage of each episode; the samples of a maze follow one another."""
    rewards = [reward_of(episode, config.reward) for episode in episodes]
    groups = itertools.batched(rewards, config.trainer.grpo.samples_per_maze)
    return [advantage for group in groups for advantage in group_advantages(group)]


def _share_without_signal(advantages: Sequence[Sequence[float]], samples: int) -> float:
    groups = [group for part in advantages for group in itertools.batched(part, samples)]
    return fmean(not any(group) for group in groups)


def _evaluate(config: JobConfig, crew: Crew, *, step: int) -> Evaluation:
    temperature = config.evaluation.temperature
    episodes, _, _ = crew.play(
        config.evaluation_mazes(), temperature=temperature, stream=f"evaluation {step}"
    )
    return evaluation_of(
        episodes,
        step=step,
        max_turns=config.maze.max_turns,
        temperature=temperature,
        weights=config.reward,
    )


def _postfix(progress: Progress) -> str:
    last = progress.steps[-1]
    return f"solved {last.solved_share:.0%}, reward {last.mean_reward:.2f}"


# --- the policy before GRPO -------------------------------------------------------------------------------


def _warm_start(config: JobConfig, cache: Path, crew: Crew) -> WarmStart:
    """Imitate the solver until enough held-out mazes are solved, or take that policy from the cache."""
    key = _cache_key(config)
    weights, record = cache / f"{key}.pt", cache / f"{key}.json"
    if record.exists():
        crew.load(weights)
        known = WarmStart.model_validate_json(record.read_text(encoding="utf-8"))
        tqdm.write(f"Warm start from the cache: {weights}")
        return known.model_copy(update={"from_cache": True})
    warm_start = _imitate(config, crew)
    cache.mkdir(parents=True, exist_ok=True)
    part = weights.with_suffix(".part")
    crew.save(part)
    part.replace(weights)
    write_atomically(record, warm_start.model_dump_json())  # last: it vouches for the weights
    return warm_start


def _imitate(config: JobConfig, crew: Crew) -> WarmStart:
    asked = config.trainer.warm_start
    with tqdm(total=asked.max_steps, desc="Warm start", unit="step", mininterval=1) as bar:
        for step in range(asked.check_every, asked.max_steps + 1, asked.check_every):
            loss = crew.imitate(steps=asked.check_every)
            share = _held_out_share(config, crew)
            bar.update(asked.check_every)
            bar.set_postfix_str(
                f"loss {loss:.2f}, solved {share:.0%} of held-out mazes, goal {asked.solved_share:.0%}"
            )
            if share >= asked.solved_share:
                return WarmStart(steps=step, solved_share=share, from_cache=False)
    raise WarmStartFailed(
        f"trainer.warm_start.solved_share = {asked.solved_share}: is not reached in {asked.max_steps} steps, "
        f"which got to {share:.0%}. Raise trainer.warm_start.max_steps or lower the share."
    )


def _held_out_share(config: JobConfig, crew: Crew) -> float:
    mazes = [maze_for(size=config.maze.size, seed=seed) for seed in HELD_OUT_SEEDS[:HELD_OUT_MAZES]]
    episodes, _, _ = crew.play(mazes, temperature=config.evaluation.temperature, stream="warm start")
    return fmean(episode.solved for episode in episodes)


def _cache_key(config: JobConfig) -> str:
    """Everything a warm start depends on: the code, the choices, the seed."""
    digest = hashlib.sha256()
    for name in WARM_START_CODE:
        digest.update((PACKAGE / name).read_bytes())
    trainer = config.trainer
    parts = (config.maze, config.evaluation, trainer.policy, trainer.warm_start)
    digest.update("".join(part.model_dump_json() for part in parts).encode())
    digest.update(str((config.seed, trainer.rollout_workers, trainer.grpo.learning_rate)).encode())
    return digest.hexdigest()[:16]
