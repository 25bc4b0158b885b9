"""A vision-language policy small enough to train on a laptop's CPU in minutes.

Picture and text in, text out, like the real one: a vision tower turns each maze cell (one patch) into
features by looking around repeatedly with shared weights, a learned query attends to the cells, and a
recurrent decoder reads the feedback of the last turn and writes the answer token by token. Its vocabulary
holds each action as one token, the end mark, and words that make an answer malformed.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from training.actions import ACTIONS
from training.config import PolicyConfig
from training.maze import CELL_PIXELS, FEEDBACK_DONE, FEEDBACK_WALL, Frame

END = "<end>"
START = "<start>"
OTHER_FEEDBACK = "<other feedback>"
# The actions come first: a token below len(ACTIONS) is the number of its action.
VOCABULARY = (*map(str, ACTIONS), END, "I", "go", "wall", START, FEEDBACK_DONE, FEEDBACK_WALL, OTHER_FEEDBACK)
TOKENS = {text: token for token, text in enumerate(VOCABULARY)}
# Feedback is read, never written: sampling it is impossible.
ANSWER_TOKENS = TOKENS[START]
MAX_ANSWER_TOKENS = 3

# The image processor keeps every fifth pixel: 5x5 of a cell's 25x25, enough to tell the disc.
STRIDE = 5
PATCH = CELL_PIXELS // STRIDE


@dataclass(frozen=True)
class Answers:
    """Sampled answers of B pictures."""

    tokens_BT: NDArray[np.int64]
    """Padded with the end mark."""
    mask_BT: NDArray[np.bool_]
    """Which tokens were sampled, the end mark included."""
    log_probs_BT: NDArray[np.float32]
    """Log-probabilities at temperature 1, zero where not sampled."""


def process_images(frames: Sequence[Frame]) -> NDArray[np.uint8]:
    """Frames of one size as the tower reads them: uint8, shape (B, 5 * size, 5 * size, 3)."""
    offset = STRIDE // 2
    return np.stack([frame[offset::STRIDE, offset::STRIDE] for frame in frames])


def feedback_token(feedback: str | None) -> int:
    """The text input of a turn: the environment's words on the turn before, None at the start."""
    return TOKENS[START] if feedback is None else TOKENS.get(feedback, TOKENS[OTHER_FEEDBACK])


def text_of(tokens: Sequence[int]) -> str:
    """The answer as text, up to the end mark."""
    words = [VOCABULARY[token] for token in tokens]
    return " ".join(words[: words.index(END)] if END in words else words)


class Policy(nn.Module):
    """See the module's description. Shapes: B pictures, C cells a picture, T tokens, W channels."""

    def __init__(self, config: PolicyConfig) -> None:
        super().__init__()
        width, hidden = config.channels, config.decoder_width
        self.iterations = config.iterations
        self.embed = nn.Linear(PATCH * PATCH * 3, width)
        self.look = nn.Conv2d(2 * width, width, kernel_size=5, padding=2)
        self.mix = nn.Conv2d(width, width, kernel_size=1)
        self.norm = nn.LayerNorm(width)
        self.attend = nn.Linear(2 * width, 1)
        self.to_decoder = nn.Linear(2 * width, hidden)
        self.tokens = nn.Embedding(len(VOCABULARY), hidden)
        self.decoder = nn.GRUCell(hidden, hidden)
        self.head = nn.Linear(hidden, ANSWER_TOKENS)

    def see(self, images: NDArray[np.uint8]) -> tuple[Tensor, Tensor]:
        """Features of every cell (B, C, 2W) and the attention logits over the cells (B, C)."""
        patches = _patches(images)
        batch, side = patches.shape[:2]
        pixels = functional.relu(self.embed(patches)).permute(0, 3, 1, 2)
        state = torch.zeros_like(pixels)
        for _ in range(self.iterations):
            change = self.mix(functional.relu(self.look(torch.cat([state, pixels], dim=1))))
            state = self.norm((state + change).permute(0, 2, 3, 1)).permute(0, 3, 1, 2)
        cells = torch.cat([state, pixels], dim=1).permute(0, 2, 3, 1).reshape(batch, side * side, -1)
        return cells, self.attend(cells).squeeze(-1)

    def context(self, images: NDArray[np.uint8]) -> Tensor:
        """What the decoder is told of the picture (B, 2W)."""
        cells, attention = self.see(images)
        return (attention.softmax(dim=-1).unsqueeze(1) @ cells).squeeze(1)

    def logits(self, context: Tensor, feedback: Tensor, answers: Tensor) -> Tensor:
        """Next-token logits (B, T, answer vocabulary) for given answers (B, T)."""
        hidden = torch.tanh(self.to_decoder(context))
        inputs = torch.cat([feedback.unsqueeze(1), answers[:, :-1]], dim=1)
        steps = []
        for token in inputs.unbind(dim=1):
            hidden = self.decoder(self.tokens(token), hidden)
            steps.append(self.head(hidden))
        return torch.stack(steps, dim=1)

    @torch.no_grad()
    def answer(
        self,
        images: NDArray[np.uint8],
        feedback: Sequence[int],
        *,
        temperature: float,
        generator: torch.Generator,
    ) -> Answers:
        """Sample an answer a picture; temperature 0 takes the likeliest token."""
        hidden = torch.tanh(self.to_decoder(self.context(images)))
        token = torch.tensor(feedback)
        running = torch.ones(len(token), dtype=torch.bool)
        columns = []
        for _ in range(MAX_ANSWER_TOKENS):
            hidden = self.decoder(self.tokens(token), hidden)
            log_probs = self.head(hidden).log_softmax(dim=-1)
            token = _sample(log_probs, temperature, generator).where(running, torch.tensor(TOKENS[END]))
            chosen = log_probs.gather(1, token.unsqueeze(1)).squeeze(1)
            columns.append((token, running, chosen * running))
            running = running & (token != TOKENS[END])
        tokens, masks, chosen_log_probs = (
            torch.stack(column, dim=1).numpy() for column in zip(*columns, strict=True)
        )
        return Answers(tokens_BT=tokens, mask_BT=masks, log_probs_BT=chosen_log_probs)


def _patches(images: NDArray[np.uint8]) -> Tensor:
    """One patch a cell: (B, side, side, pixels * 3) in -1..1."""
    batch, side = images.shape[0], images.shape[1] // PATCH
    grid = torch.from_numpy(images).view(batch, side, PATCH, side, PATCH, 3).permute(0, 1, 3, 2, 4, 5)
    return grid.reshape(batch, side, side, -1).float() / 127.5 - 1


def _sample(log_probs: Tensor, temperature: float, generator: torch.Generator) -> Tensor:
    if temperature == 0:
        return log_probs.argmax(dim=-1)
    return torch.multinomial((log_probs / temperature).softmax(dim=-1), 1, generator=generator).squeeze(1)
