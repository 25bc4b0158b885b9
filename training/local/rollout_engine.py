"""Sampling from the tiny model on a CPU: batched decoding over a key-value cache that lives as long as an
episode.

Replaces a vLLM engine. Kept: continuous sessions, prefix reuse over turns, LoRA read from the sync folder,
log-probabilities of what was sampled, allowed tokens. NOT rehearsed: vLLM itself, its HTTP servers and
router, paged attention, CUDA graphs, tensor parallelism, GPU memory (sleep and wake-up do nothing here).
"""

import json
import random
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors.torch import load_file
from transformers import Qwen3VLForConditionalGeneration

from training.local.tiny_model import use_single_patch_attention

ADAPTER_WEIGHTS, ADAPTER_CONFIG = "adapter_model.safetensors", "adapter_config.json"
_PEFT_PREFIX = "base_model.model."

type Frame = NDArray[np.float32]
"""The one patch of a preprocessed frame, shape (1, 3 * size²)."""


@dataclass(frozen=True)
class Sampling:
    """How to choose tokens. A temperature of 0 takes the likeliest one."""

    temperature: float
    max_tokens: int
    allowed_tokens: tuple[int, ...]
    end_token: int


@dataclass(frozen=True)
class Request:
    """One turn of one session: the tokens after those the engine has seen, and their frames in order."""

    session: str
    seen: int
    """Tokens that the engine must have in its cache."""
    tokens: list[int]
    frames: list[Frame]


@dataclass(frozen=True)
class Completion:
    """What was sampled, with the log-probability of each token, and whether the turn ended by itself."""

    tokens: list[int]
    log_probabilities: list[float]
    ended: bool


class SlabCache:
    """Keys and values of all sessions in one tensor a layer, a row each, rows of different lengths.

    Speaks the part of Hugging Face's cache interface that the text model uses: `update`.
    """

    def __init__(self, *, layers: int, heads: int, head_size: int, rows: int, length: int) -> None:
        shape = (layers, rows, length, heads, head_size)
        self._keys, self._values = torch.zeros(shape), torch.zeros(shape)
        self._rows = torch.empty(0, dtype=torch.long)
        self._positions = torch.empty(0, 0, dtype=torch.long)

    def select(self, rows: torch.Tensor, positions: torch.Tensor) -> None:
        """Direct the following updates to `rows` (B) and `positions` (B, new tokens)."""
        self._rows, self._positions = rows, positions

    def update(
        self, keys: torch.Tensor, values: torch.Tensor, layer: int, *_: Any
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Store the new (B, heads, new, size) and return all of the selected rows up to the longest."""
        length = int(self._positions.max()) + 1
        stored = []
        for slab, new in ((self._keys[layer], keys), (self._values[layer], values)):
            slab[self._rows[:, None], self._positions] = new.transpose(1, 2)
            stored.append(slab[self._rows, :length].transpose(1, 2))
        return stored[0], stored[1]


class RolloutEngine:
    """The model, its sessions and its adapter, in one process."""

    def __init__(
        self, *, model_path: str, sessions: int, max_tokens: int, seed: int, threads: int = 1
    ) -> None:
        torch.set_num_threads(threads)
        use_single_patch_attention()
        model = Qwen3VLForConditionalGeneration.from_pretrained(model_path, dtype=torch.float32)
        self._model = model.eval().requires_grad_(False)
        text = self._model.config.text_config
        self._cache = SlabCache(
            layers=text.num_hidden_layers,
            heads=text.num_key_value_heads,
            head_size=text.head_dim,
            rows=sessions,
            length=max_tokens,
        )
        self._max_tokens = max_tokens
        self._free_rows = list(range(sessions))
        self._sessions: dict[str, tuple[int, int]] = {}
        """Row and number of cached tokens by session."""
        self._features: dict[bytes, torch.Tensor] = {}
        self._seed = seed
        self._base_weights: dict[str, torch.Tensor] = {}

    def load_adapter(self, folder: str) -> None:
        """Add the LoRA adapter of `folder` to the base weights; a former adapter is taken out first."""
        weights = load_file(Path(folder) / ADAPTER_WEIGHTS)
        config = json.loads((Path(folder) / ADAPTER_CONFIG).read_text())
        scale = config["lora_alpha"] / config["r"]
        parameters = dict(self._model.named_parameters())
        for name, down in weights.items():
            if not name.endswith(".lora_A.weight"):
                continue
            up = weights[name.replace("lora_A", "lora_B")]
            target = name.removeprefix(_PEFT_PREFIX).removesuffix(".lora_A.weight") + ".weight"
            base = self._base_weights.setdefault(target, parameters[target].clone())
            parameters[target].copy_(base + scale * up @ down)
        self.forget_sessions()

    def forget_sessions(self) -> None:
        """Drop every cached key and value: they belong to weights that are gone."""
        self.finish(list(self._sessions))

    def finish(self, sessions: Sequence[str]) -> None:
        """Give back the cache rows of sessions that have ended."""
        for session in sessions:
            if session in self._sessions:
                self._free_rows.append(self._sessions.pop(session)[0])

    @torch.inference_mode()
    def generate(self, requests: Sequence[Request], sampling: Sampling) -> list[Completion]:
        """Answer all requests; those with equally many new tokens share each forward pass."""
        by_size: dict[int, list[int]] = {}
        for index, request in enumerate(requests):
            by_size.setdefault(len(request.tokens), []).append(index)
        answers: dict[int, Completion] = {}
        for indices in by_size.values():
            completions = self._generate([requests[i] for i in indices], sampling)
            answers.update(zip(indices, completions, strict=True))
        return [answers[i] for i in range(len(requests))]

    def _generate(self, requests: Sequence[Request], sampling: Sampling) -> list[Completion]:
        rows, seen = self._open_sessions(requests)
        tokens = torch.tensor([r.tokens for r in requests])
        features = self._image_features([frame for r in requests for frame in r.frames])
        logits = self._forward(rows, seen, tokens, features)
        lengths = seen + tokens.shape[1]
        sampled: list[list[int]] = [[] for _ in requests]
        scores: list[list[float]] = [[] for _ in requests]
        active = torch.arange(len(requests))
        for turn in range(sampling.max_tokens):
            draws = [self._draw(requests[i].session, int(lengths[i])) for i in active.tolist()]
            chosen, log_probabilities = _sample(logits, sampling, torch.tensor(draws))
            for i, token, score in zip(
                active.tolist(), chosen.tolist(), log_probabilities.tolist(), strict=True
            ):
                sampled[i].append(token)
                scores[i].append(score)
            going_on = chosen != sampling.end_token
            active = active[going_on]
            if turn == sampling.max_tokens - 1 or not len(active):
                break
            logits = self._forward(rows[active], lengths[active], chosen[going_on][:, None], None)
            lengths[active] += 1
        for request, row, length in zip(requests, rows.tolist(), lengths.tolist(), strict=True):
            self._sessions[request.session] = (row, length)
        return [
            Completion(tokens=t, log_probabilities=s, ended=t[-1] == sampling.end_token)
            for t, s in zip(sampled, scores, strict=True)
        ]

    def _open_sessions(self, requests: Sequence[Request]) -> tuple[torch.Tensor, torch.Tensor]:
        rows, seen = [], []
        for request in requests:
            row, cached = self._sessions.get(request.session, (-1, 0))
            # The last sampled token was never fed to the model, so one token may be seen but not cached.
            if cached != request.seen:
                raise ValueError(
                    f"session {request.session}: {cached} tokens are cached, "
                    f"the request builds on {request.seen}"
                )
            if row < 0:
                row = self._free_rows.pop()
                self._sessions[request.session] = (row, 0)
            rows.append(row)
            seen.append(cached)
        return torch.tensor(rows), torch.tensor(seen)

    def _image_features(self, frames: Sequence[Frame]) -> torch.Tensor | None:
        """The vision tower's tokens; the tower is frozen, so each frame is looked at only once."""
        if not frames:
            return None
        keys = [frame.tobytes() for frame in frames]
        unknown = {k: f for k, f in zip(keys, frames, strict=True) if k not in self._features}
        if unknown:
            patches = torch.from_numpy(np.concatenate(list(unknown.values())))
            film = torch.tensor([[len(patches), 1, 1]])
            tokens = self._model.model.visual(patches, grid_thw=film).pooler_output
            self._features.update(zip(unknown, tokens, strict=True))
        return torch.stack([self._features[k] for k in keys])

    def _forward(
        self, rows: torch.Tensor, cached: torch.Tensor, tokens: torch.Tensor, features: torch.Tensor | None
    ) -> torch.Tensor:
        """Logits (B, vocabulary) after `tokens` (B, n), which follow the `cached` (B) ones of `rows` (B)."""
        # A frame is one token wide and high, so M-RoPE's three positions all count tokens.
        positions = cached[:, None] + torch.arange(tokens.shape[1])
        length = int(positions.max()) + 1
        embeddings = self._model.model.language_model.embed_tokens(tokens)
        if features is not None:
            embeddings[tokens == self._model.config.image_token_id] = features
        self._cache.select(rows, positions)
        hidden = self._model.model.language_model(
            inputs_embeds=embeddings,
            position_ids=positions.expand(3, -1, -1),
            attention_mask=(torch.arange(length) <= positions[:, :, None])[:, None],
            past_key_values=self._cache,
            use_cache=True,
        ).last_hidden_state
        logits: torch.Tensor = self._model.lm_head(hidden[:, -1])
        return logits

    def _draw(self, session: str, position: int) -> float:
        """The chance in 0..1 that decides a token: it depends on the place alone, not on the batch.

        So a resumed run samples what the undisturbed one would have.
        """
        return random.Random(f"{self._seed} {session} {position}").random()


def _sample(
    logits: torch.Tensor, sampling: Sampling, draws: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """Tokens (B) and their log-probabilities (B) over the whole vocabulary, from draws (B) in 0..1."""
    log_probabilities = (logits / (sampling.temperature or 1.0)).log_softmax(-1)
    allowed = torch.tensor(sampling.allowed_tokens)
    candidates = log_probabilities[:, allowed].softmax(-1)
    if sampling.temperature == 0:
        choice = candidates.argmax(-1)
    else:
        choice = (candidates.cumsum(-1) < draws[:, None]).sum(-1).clamp(max=len(allowed) - 1)
    tokens = allowed[choice]
    return tokens, log_probabilities.gather(1, tokens[:, None])[:, 0]
