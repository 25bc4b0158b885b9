"""The learner: one actor that holds the policy and changes it, by imitation at first, then by GRPO."""

import functools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from training.config import JobConfig
from training.plain.imitation import MAX_GRADIENT_NORM, Imitation
from training.plain.policy import Policy
from training.plain.rollout import Samples


@dataclass(frozen=True)
class UpdateMetrics:
    """Means over the minibatches of one update."""

    loss: float = 0.0
    entropy: float = 0.0
    clip_share: float = 0.0
    gradient_norm: float = 0.0


class Learner:
    """Holds the policy that is trained and its optimizer."""

    def __init__(self, config: JobConfig) -> None:
        torch.set_num_threads(1)
        torch.manual_seed(config.seed)
        self._config = config
        self._policy = Policy(config.trainer.policy)
        self._optimizer = torch.optim.AdamW(
            self._policy.parameters(), lr=config.trainer.grpo.learning_rate, weight_decay=0.0
        )

    @functools.cached_property
    def _imitation(self) -> Imitation:
        return Imitation(self._policy, self._config)

    def imitate(self, *, steps: int) -> float:
        """Imitate the solver for some optimizer steps; the last loss."""
        return self._imitation.run(steps=steps)

    def weights(self) -> dict[str, Any]:
        """The policy's weights, for the rollout workers."""
        return self._policy.state_dict()

    def save(self, path: Path) -> None:
        """Write policy and optimizer."""
        torch.save({"policy": self._policy.state_dict(), "optimizer": self._optimizer.state_dict()}, path)

    def load(self, path: Path) -> None:
        """Take policy and optimizer from a file that `save` wrote."""
        state = torch.load(path, weights_only=True)
        self._policy.load_state_dict(state["policy"])
        self._optimizer.load_state_dict(state["optimizer"])

    def update(self, step: int, advantages: Sequence[Sequence[float]], *batches: Samples) -> UpdateMetrics:
        """One pass over the samples. `advantages` has a list a batch, with a number an episode.

        Turns whose group earned equal rewards have no gradient and are left out. The order of the
        minibatches depends on seed and step alone, so a resumed run takes the same path.
        """
        advantage_N = np.concatenate(
            [np.asarray(a)[b.episode_N] for a, b in zip(advantages, batches, strict=True)]
        )
        samples = _concatenate(batches)
        telling = np.flatnonzero(advantage_N)
        if not len(telling):
            return UpdateMetrics()
        order = np.random.default_rng([self._config.seed, step]).permutation(telling)
        parts = np.array_split(order, min(self._config.trainer.grpo.minibatches, len(order)))
        metrics = [self._minibatch(samples, advantage_N, part) for part in parts]
        names = UpdateMetrics.__dataclass_fields__
        return UpdateMetrics(**{name: fmean(getattr(m, name) for m in metrics) for name in names})

    def _minibatch(
        self, samples: Samples, advantage_N: NDArray[np.float64], chosen: NDArray[np.int64]
    ) -> UpdateMetrics:
        tokens, feedback, mask, old_log_probs = (
            torch.from_numpy(column[chosen])
            for column in (samples.tokens_NT, samples.feedback_N, samples.mask_NT, samples.log_probs_NT)
        )
        advantage = torch.from_numpy(advantage_N[chosen]).float().unsqueeze(1)
        log_probs = self._policy.logits(
            self._policy.context(samples.images_N[chosen]), feedback, tokens
        ).log_softmax(dim=-1)
        ratio = (log_probs.gather(2, tokens.unsqueeze(2)).squeeze(2) - old_log_probs).exp()
        loss, clipped = _clipped_loss(ratio, advantage, mask, clip=self._config.trainer.grpo.clip)
        self._optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]  # torch has no types here
        norm = nn.utils.clip_grad_norm_(self._policy.parameters(), MAX_GRADIENT_NORM)
        self._optimizer.step()
        entropy = -(log_probs.exp() * log_probs).sum(dim=-1)[mask].mean()
        return UpdateMetrics(
            loss=loss.item(), entropy=entropy.item(), clip_share=clipped.item(), gradient_norm=norm.item()
        )


def _clipped_loss(ratio: Tensor, advantage: Tensor, mask: Tensor, *, clip: float) -> tuple[Tensor, Tensor]:
    """PPO's clipped objective, averaged over the sampled tokens; and the share of clipped tokens."""
    inside = ratio.clamp(1 - clip, 1 + clip)
    objective = torch.minimum(ratio * advantage, inside * advantage)
    return -objective[mask].mean(), (ratio != inside)[mask].float().mean()


def _concatenate(batches: Sequence[Samples]) -> Samples:
    return Samples(*(np.concatenate(column) for column in zip(*map(_columns, batches), strict=True)))


def _columns(samples: Samples) -> Iterator[NDArray[Any]]:
    return (getattr(samples, name) for name in Samples.__dataclass_fields__)
