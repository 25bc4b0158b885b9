"""SkyRL's vision-language generator, with each message of a conversation rendered once, not every turn.

SkyRL sends the whole conversation to vLLM's render endpoint before every answer: in a game of 20 turns the
server decodes, resizes and serializes 210 pictures a trajectory, and the GPU waits for it. Every message of
Qwen's chat template stands for itself, so the tokens of a conversation are those of its messages, and what an
earlier turn or another sample of the same maze has had rendered need not be rendered again.

Nothing is taken on trust: the first conversations of a run are rendered both ways, and a difference ends the
run. A template that edits history, as those of thinking models do, is found out that way.
"""

import asyncio
import json
from typing import Any

from skyrl.train.generators.skyrl_vlm_generator import RenderedConversation, SkyRLVLMGymGenerator

CHECKED_CONVERSATIONS = 4
MESSAGES_TO_CHECK = 5
"""A conversation is compared at its third turn: two answers are then part of it."""

type Message = dict[str, Any]
type Piece = tuple[list[int], dict[str, Any] | None]
"""Token ids of one message and, for pictures, vLLM's features: hashes, places in the tokens, tensors."""


class RenderMismatchError(Exception):
    """The model's chat template does not render a conversation as the sum of its messages."""


class RenderOnceGenerator(SkyRLVLMGymGenerator):  # type: ignore[misc]  # skyrl has no types
    """Differs from its base in `_render_conversation` alone."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._pieces: dict[str, asyncio.Task[Piece]] = {}
        self._unchecked = CHECKED_CONVERSATIONS
        question = [{"role": "user", "content": "?"}]
        self._answer_start = self._tokens_after(question, add_generation_prompt=True)

    async def generate(self, *args: Any, **kwargs: Any) -> Any:
        """Forget the pieces of earlier calls: the next step plays other mazes."""
        self._pieces.clear()
        return await super().generate(*args, **kwargs)

    async def _render_conversation(self, conversation: list[Message]) -> RenderedConversation:
        pieces = [await self._piece(message) for message in conversation]
        rendered = self._joined(pieces)
        if self._unchecked and len(conversation) >= MESSAGES_TO_CHECK:
            self._unchecked -= 1
            _compare(rendered, await super()._render_conversation(conversation))
        return rendered

    async def _piece(self, message: Message) -> Piece:
        key = json.dumps([message["role"], message["content"]])
        if key not in self._pieces:
            # A task, so that samples that come to the same picture at the same time wait for one request.
            self._pieces[key] = asyncio.create_task(self._render(message))
        return await self._pieces[key]

    async def _render(self, message: Message) -> Piece:
        if message["role"] == "assistant":
            question = [{"role": "user", "content": "?"}]
            return self._tokens_after(question, message), None
        rendered = await super()._render_conversation([message])
        tokens = list(rendered["prompt_ids"])
        start = len(tokens) - len(self._answer_start)
        if tokens[start:] != self._answer_start:
            raise RenderMismatchError(f"a message ends with {tokens[start:]}, not with {self._answer_start}")
        return tokens[:start], rendered["features"]

    def _tokens_after(
        self, conversation: list[Message], *more: Message, add_generation_prompt: bool = False
    ) -> list[int]:
        """The tokens that `more`, or the start of an answer, adds to the conversation."""
        before = self.tokenizer.apply_chat_template(conversation, tokenize=False)
        after = self.tokenizer.apply_chat_template(
            [*conversation, *more], tokenize=False, add_generation_prompt=add_generation_prompt
        )
        tokens: list[int] = self.tokenizer.encode(after[len(before) :], add_special_tokens=False)
        return tokens

    def _joined(self, pieces: list[Piece]) -> RenderedConversation:
        tokens: list[int] = []
        features: dict[str, Any] = {"mm_hashes": {}, "mm_placeholders": {}, "kwargs_data": {}}
        for piece_tokens, piece_features in pieces:
            _append(features, piece_features or {}, offset=len(tokens))
            tokens += piece_tokens
        return RenderedConversation(
            prompt_ids=tokens + self._answer_start, features=features if features["mm_hashes"] else None
        )


def _append(features: dict[str, Any], more: dict[str, Any], *, offset: int) -> None:
    """Add a message's pictures, whose places count from the start of the message."""
    for kind, by_modality in more.items():
        for modality, items in (by_modality or {}).items():
            moved = [_moved(place, offset) for place in items] if kind == "mm_placeholders" else items
            features.setdefault(kind, {}).setdefault(modality, []).extend(moved)


def _moved(place: dict[str, Any], offset: int) -> dict[str, Any]:
    return {**place, "offset": place["offset"] + offset}


def _compare(ours: RenderedConversation, servers: RenderedConversation) -> None:
    for part in ("mm_hashes", "mm_placeholders"):
        if (ours["features"] or {})[part] != (servers["features"] or {})[part]:
            raise RenderMismatchError(f"{part} differ from the server's: trainer.render_once must be false")
    if ours["prompt_ids"] != list(servers["prompt_ids"]):
        raise RenderMismatchError(
            "the model's chat template changes earlier messages: trainer.render_once must be false"
        )
