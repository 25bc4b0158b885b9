"""The rehearsal's starting checkpoint: a tiny model that knows the way but wavers, made from demonstrations.

Replaces VisGym's SFT checkpoint, which also solves a part of the mazes before GRPO. Two stages, both
supervised by the shortest path, on mazes that no evaluation sees:
1. the vision tower learns to name the best action of a frame, through a linear probe that is thrown away;
2. the text layers learn the conversation, cloning a player who plays the best action except for a share
   `noise` of the turns, where any move may come. Cloned are the player's probabilities, not its samples.
So the checkpoint's sampled solve rate is far below what its vision tower allows: that gap is what GRPO, with
the tower frozen and no demonstrations, has to close.
"""

import hashlib
import itertools
import json
import random
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn
from tqdm import trange
from transformers import AutoTokenizer, PreTrainedTokenizerFast, Qwen3VLForConditionalGeneration

from training.actions import ACTIONS, Action, Move
from training.evaluation_sets import mazes_never_trained_on
from training.local import tiny_model
from training.local.shrinking import Shrinking, shrunk_frames
from training.maze import (
    FEEDBACK_DONE,
    FEEDBACK_WALL,
    Cell,
    Maze,
    best_action,
    neighbour,
    prompt_for,
    training_mazes,
)

STOP = len(ACTIONS) - 1
MOVES = range(STOP)
MUON_MIN_SIZE = 64
_SOURCES = ("tiny_model.py", "shrinking.py", "warm_start.py")


@dataclass(frozen=True)
class WarmStart:
    """Everything that decides the checkpoint; its hash names the cached folder."""

    maze_size: int = 9
    seed: int = 0
    shrinking: Shrinking = Shrinking.BOX
    """How a frame becomes one pixel a cell; for vLLM it must be bilinear."""
    noise: float = 0.35
    """Share of turns in which the demonstrating player moves at random."""
    vision_steps: int = 900
    vision_mazes: int = 48
    """Mazes a step of stage 1; every cell of a maze is one frame."""
    dialogue_steps: int = 120
    dialogue_mazes: int = 24
    """Conversations a step of stage 2."""
    dialogue_turns: int = 20

    @property
    def digest(self) -> str:
        """Changes with any setting and with the code that builds the model."""
        sources = [(Path(__file__).parent / name).read_text() for name in _SOURCES]
        return hashlib.sha256("\n".join([json.dumps(asdict(self)), *sources]).encode()).hexdigest()[:16]


def ensure_checkpoint(settings: WarmStart, *, cache: Path) -> Path:
    """The checkpoint's folder, trained on the first call and found again on later ones."""
    folder = cache / f"warm-start-{settings.digest}"
    if folder.is_dir():
        return folder
    cache.mkdir(parents=True, exist_ok=True)
    unfinished = Path(tempfile.mkdtemp(prefix=f"{folder.name}.", dir=cache))
    try:
        _train(settings, unfinished)
        unfinished.replace(folder)
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)
    return folder


def allowed_tokens(checkpoint: Path) -> list[int]:
    """The tokens the checkpoint's policy may sample."""
    return tiny_model.action_token_ids(AutoTokenizer.from_pretrained(checkpoint))


def _train(settings: WarmStart, folder: Path) -> None:
    # More threads help little with matrices this small, and hinder where the cores are shared.
    torch.set_num_threads(1)
    tiny_model.use_single_patch_attention()
    tokenizer = tiny_model.build_tokenizer(maze_size=settings.maze_size)
    model = tiny_model.build_model(maze_size=settings.maze_size, tokenizer=tokenizer, seed=settings.seed)
    mazes = _demonstration_mazes(settings)
    train_vision(model, mazes, settings)
    train_dialogue(model, tokenizer, mazes, settings)
    image_processor = tiny_model.build_image_processor(
        maze_size=settings.maze_size, shrinking=settings.shrinking
    )
    tiny_model.save(folder, model=model, tokenizer=tokenizer, image_processor=image_processor)


def _demonstration_mazes(settings: WarmStart) -> Iterator[Maze]:
    size = settings.maze_size
    return training_mazes(size=size, seed=f"{settings.seed} warm start", exclude=mazes_never_trained_on(size))


# --- stage 1: the vision tower reads a maze ---------------------------------------------------------------


def patches(maze: Maze, cells: Sequence[Cell], shrinking: Shrinking) -> NDArray[np.float32]:
    """What the image processor makes of the frames with the agent on each of `cells`; (cells, 3 * size²)."""
    frames = shrunk_frames(maze, cells, shrinking)
    normalised = (frames / 255 - tiny_model.PIXEL_MEAN) / tiny_model.PIXEL_SPREAD
    return normalised.transpose(0, 3, 1, 2).reshape(len(cells), -1).astype(np.float32)


def train_vision(model: Qwen3VLForConditionalGeneration, mazes: Iterator[Maze], settings: WarmStart) -> None:
    """Teach the vision tower to put the best action of a frame into its one output token."""
    visual = model.model.visual
    probe = nn.Linear(model.config.vision_config.out_hidden_size, len(ACTIONS))
    optimizer = _Optimizer([*visual.parameters(), *probe.parameters()], steps=settings.vision_steps)
    bar = trange(settings.vision_steps, desc="Warm start: reading mazes", unit="step", mininterval=1)
    for _ in bar:
        frames, labels = _labelled_frames(
            list(itertools.islice(mazes, settings.vision_mazes)), settings.shrinking
        )
        # One film of many one-patch frames: the tower treats each frame by itself, as it does images.
        film = torch.tensor([[len(frames), 1, 1]])
        logits = probe(visual(frames, grid_thw=film).pooler_output)
        loss = nn.functional.cross_entropy(logits, labels)
        optimizer.update(loss)
        accuracy = (logits.argmax(-1) == labels).float().mean()
        bar.set_postfix_str(f"best action named for {accuracy:.0%} of the frames", refresh=False)


def _labelled_frames(mazes: Sequence[Maze], shrinking: Shrinking) -> tuple[torch.Tensor, torch.Tensor]:
    frames, labels = [], []
    for maze in mazes:
        cells = list(maze.next_cells)
        frames.append(patches(maze, cells, shrinking))
        labels += [ACTIONS.index(best_action(maze, cell)) for cell in cells]
    return torch.from_numpy(np.concatenate(frames)), torch.tensor(labels)


# --- stage 2: the text layers hold a conversation ---------------------------------------------------------


def player_probabilities(best: Action, noise: float) -> list[float]:
    """How likely the demonstrating player is to take each of `ACTIONS`; it never stops by mistake."""
    probabilities = [noise / len(MOVES)] * len(MOVES) + [0.0]
    probabilities[ACTIONS.index(best)] += 1 - noise
    return probabilities


@dataclass(frozen=True)
class Demonstration:
    """One conversation: token ids, the agent's cell in each frame, what the player might have done."""

    maze: Maze
    tokens: list[int]
    cells: list[Cell]
    answer_positions: list[int]
    """Index of the last token before each answer."""
    probabilities: list[list[float]]


def demonstrate(
    maze: Maze, *, turns: int, noise: float, tokenizer: PreTrainedTokenizerFast, stream: random.Random
) -> Demonstration:
    """Play `turns` turns. On the target the player walks on, as an agent that did not stop would have to."""

    def user(text: str) -> list[int]:
        content = [{"type": "text", "text": text}, {"type": "image_url"}]
        encoded: list[int] = tokenizer.apply_chat_template(
            [{"role": "user", "content": content}], add_generation_prompt=True, return_dict=False
        )
        return encoded

    after_answer = tokenizer.encode(f"{tiny_model.TURN_END}\n")
    action_ids = tiny_model.action_token_ids(tokenizer)
    tokens, here = user(prompt_for(maze.size)), maze.start
    cells, positions, probabilities = [here], [len(tokens) - 1], []
    for turn in range(turns):
        choices = player_probabilities(best_action(maze, here), noise)
        probabilities.append(choices)
        if turn == turns - 1:
            break
        weights = choices[:STOP] if any(choices[:STOP]) else [1.0] * STOP
        played = stream.choices(MOVES, weights)[0]
        here, feedback = _move(maze, here, played)
        tokens += [action_ids[played], *after_answer, *user(feedback)]
        cells.append(here)
        positions.append(len(tokens) - 1)
    return Demonstration(maze, tokens, cells, positions, probabilities)


def _move(maze: Maze, here: Cell, number: int) -> tuple[Cell, str]:
    action = ACTIONS[number]
    assert isinstance(action, Move)
    there = neighbour(here, action.direction)
    return (here, FEEDBACK_WALL) if maze.is_wall(there) else (there, FEEDBACK_DONE)


def train_dialogue(
    model: Qwen3VLForConditionalGeneration,
    tokenizer: PreTrainedTokenizerFast,
    mazes: Iterator[Maze],
    settings: WarmStart,
) -> None:
    """Teach the text layers to answer with the player's probabilities; the vision tower stays as it is."""
    model.model.visual.requires_grad_(False)
    stream = random.Random(f"player {settings.seed}")
    text_parameters = [p for p in model.parameters() if p.requires_grad]
    optimizer = _Optimizer(text_parameters, steps=settings.dialogue_steps)
    bar = trange(settings.dialogue_steps, desc="Warm start: conversation", unit="step", mininterval=1)
    for _ in bar:
        batch = [
            demonstrate(
                maze, turns=settings.dialogue_turns, noise=settings.noise, tokenizer=tokenizer, stream=stream
            )
            for maze in itertools.islice(mazes, settings.dialogue_mazes)
        ]
        loss = _dialogue_loss(model, tokenizer, batch, settings.shrinking)
        optimizer.update(loss)
        bar.set_postfix_str(f"loss {loss:.2f}", refresh=False)
    model.model.visual.requires_grad_(True)


def _dialogue_loss(
    model: Qwen3VLForConditionalGeneration,
    tokenizer: PreTrainedTokenizerFast,
    batch: Sequence[Demonstration],
    shrinking: Shrinking,
) -> torch.Tensor:
    """Cross-entropy to the player's probabilities at every answer, and to the end of the turn after it."""
    action_ids = tiny_model.action_token_ids(tokenizer)
    ids = torch.tensor([d.tokens for d in batch])
    frames = torch.from_numpy(np.concatenate([patches(d.maze, d.cells, shrinking) for d in batch]))
    hidden = model.model(
        input_ids=ids,
        pixel_values=frames,
        image_grid_thw=torch.ones((len(frames), 3), dtype=torch.long),
        mm_token_type_ids=(ids == model.config.image_token_id).int(),
    ).last_hidden_state
    answers = torch.tensor([d.answer_positions for d in batch])
    rows = torch.arange(len(batch))[:, None]
    log_probabilities = model.lm_head(hidden[rows, answers]).log_softmax(-1)[..., action_ids[:-1]]
    target = torch.tensor([d.probabilities for d in batch])
    # The last answer is asked for but not played, so no token follows it.
    turn_end = model.lm_head(hidden[rows, answers[:, :-1] + 1]).log_softmax(-1)[..., action_ids[-1]]
    loss: torch.Tensor = -(target * log_probabilities).sum(-1).mean() - turn_end.mean()
    return loss


# --- both stages ------------------------------------------------------------------------------------------


class _Optimizer:
    """Muon for weight matrices, AdamW for the rest: Muon needs a third of AdamW's frames to read mazes."""

    def __init__(self, parameters: Sequence[nn.Parameter], *, steps: int) -> None:
        matrices = [p for p in parameters if p.ndim == 2 and min(p.shape) >= MUON_MIN_SIZE]
        others = [p for p in parameters if p.ndim != 2 or min(p.shape) < MUON_MIN_SIZE]
        self._optimizers: tuple[torch.optim.Optimizer, ...] = (
            torch.optim.Muon(matrices, lr=0.02, momentum=0.95, weight_decay=0.0),
            torch.optim.AdamW(others, lr=3e-3, betas=(0.9, 0.95), weight_decay=0.0),
        )
        self._schedules = [
            torch.optim.lr_scheduler.LambdaLR(o, lambda step: _share_of_learning_rate(step, steps))
            for o in self._optimizers
        ]
        self._parameters = parameters

    def update(self, loss: torch.Tensor) -> None:
        """One step down the loss."""
        for optimizer in self._optimizers:
            optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        nn.utils.clip_grad_norm_(self._parameters, 1.0)
        for optimizer in self._optimizers:
            optimizer.step()
        for schedule in self._schedules:
            schedule.step()


def _share_of_learning_rate(step: int, steps: int) -> float:
    """Up over 30 steps, level, and down to almost nothing over the last 70 %."""
    return min(1.0, (step + 1) / 30, (1 - step / steps) / 0.7 + 0.01)
