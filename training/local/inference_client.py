"""The inference client that SkyRL's generator and workers talk to, in front of CPU rollout engines.

Replaces `RemoteInferenceClient`, vllm-router and vLLM's render endpoint. Kept: the interface, rendering a
whole conversation every turn, a session staying with its engine, the adapter loaded from the sync folder by
every engine. NOT rehearsed: HTTP, routing, retries, weight transfer by NCCL, sleep levels.
"""

import asyncio
import base64
import functools
import io
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NoReturn

import numpy as np
import torch
from PIL import Image
from skyrl.backends.skyrl_train.inference_servers.base import (
    ConversationType,
    InferenceEngineInput,
    InferenceEngineInterface,
    InferenceEngineOutput,
)
from transformers import AutoTokenizer
from transformers.models.qwen2_vl.image_processing_pil_qwen2_vl import Qwen2VLImageProcessorPil

from training.local.rollout_engine import Completion, Frame, Request, Sampling
from training.local.tiny_model import ASSISTANT, IMAGE, TURN_END, TURN_START

GATHER_SECONDS = 0.005
"""How long an idle engine waits for more requests before it starts a batch."""


class Renderer:
    """The chat template applied to a conversation, message by message.

    Every message of the template stands for itself, so the tokens of a conversation are those of its
    messages; the messages of the turns before are found in a cache.
    """

    def __init__(self, model_path: str) -> None:
        self._tokenizer = AutoTokenizer.from_pretrained(model_path)
        self._image_processor = Qwen2VLImageProcessorPil.from_pretrained(model_path)
        self._answer_start = self._tokenizer.encode(f"{TURN_START}{ASSISTANT}")
        self._message = functools.lru_cache(maxsize=65_536)(self._render_message)
        self._frame = functools.lru_cache(maxsize=65_536)(self._read_frame)

    def render(self, conversation: ConversationType) -> tuple[list[int], list[Frame]]:
        """Token ids up to where the answer starts, and the frames in order."""
        tokens: list[int] = []
        frames: list[Frame] = []
        for message in conversation:
            message_tokens, message_frames = self._message(message["role"], _frozen(message["content"]))
            tokens += message_tokens
            frames += message_frames
        return tokens + self._answer_start, frames

    def decode(self, tokens: Sequence[int]) -> str:
        """The text of an answer, without the token that ends the turn."""
        text: str = self._tokenizer.decode(tokens, skip_special_tokens=True)
        return text

    def _render_message(
        self, role: str, content: str | tuple[tuple[str, str], ...]
    ) -> tuple[list[int], list[Frame]]:
        frames: list[Frame] = []
        parts: str | list[dict[str, str]] = content if isinstance(content, str) else []
        for kind, value in () if isinstance(content, str) else content:
            parts.append({"type": kind, "text": value})  # type: ignore[union-attr]
            if kind == "image_url":
                frames.append(self._frame(value))
        tokens = self._tokenizer.apply_chat_template([{"role": role, "content": parts}], return_dict=False)
        if tokens.count(self._tokenizer.convert_tokens_to_ids(IMAGE)) != len(frames):
            raise ValueError(
                f"a {role} message of {len(frames)} pictures has other image tokens than that: {tokens}"
            )
        return tokens, frames

    def _read_frame(self, url: str) -> Frame:
        picture = Image.open(io.BytesIO(base64.b64decode(url.partition(",")[2])))
        patch: Frame = self._image_processor([picture], return_tensors="np")["pixel_values"]
        return patch


def _frozen(content: str | list[dict[str, Any]]) -> str | tuple[tuple[str, str], ...]:
    if isinstance(content, str):
        return content
    return tuple(
        (part["type"], part["text"] if part["type"] == "text" else part["image_url"]["url"])
        for part in content
    )


def decode_frames(features: dict[str, list[Frame]] | None) -> dict[str, torch.Tensor]:
    """What SkyRL's `decode_mm_kwargs` returns, from frames that never were serialized."""
    frames = (features or {})["image"]
    return {
        "pixel_values": torch.from_numpy(np.concatenate(frames)),
        "image_grid_thw": torch.ones((len(frames), 3), dtype=torch.long),
    }


@dataclass
class _Queue:
    """Requests that wait for one engine, with the futures that their callers await."""

    waiting: list[tuple[Request, Sampling, "asyncio.Future[Completion]"]] = field(default_factory=list)
    finished_sessions: list[str] = field(default_factory=list)
    serving: "asyncio.Task[None] | None" = None


@dataclass
class _Session:
    """The tokens an engine has cached for a trajectory, and how many frames were among them."""

    cached: list[int] = field(default_factory=list)
    frames: int = 0


class LocalInferenceClient(InferenceEngineInterface):  # type: ignore[misc]  # skyrl has no types
    """Spreads sessions over the engines and lets each engine answer everything that waits for it at once."""

    def __init__(self, *, model_path: str, engines: Sequence[Any], timeout_seconds: float) -> None:
        self._model_path = model_path
        self._engines = list(engines)
        self._timeout_seconds = timeout_seconds
        self._sleeping = False
        self.weight_version = 0
        self._set_up_transient()

    def _set_up_transient(self) -> None:
        self._queues = [_Queue() for _ in self._engines]
        self._sessions: dict[str, _Session] = {}

    def __getstate__(self) -> dict[str, Any]:
        # Policy workers get a copy to tell the engines about a new adapter: no queues, no renderer.
        keep = ("_model_path", "_engines", "_timeout_seconds", "_sleeping", "weight_version")
        return {name: self.__dict__[name] for name in keep}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._set_up_transient()

    @functools.cached_property
    def _renderer(self) -> Renderer:
        return Renderer(self._model_path)

    # --- what the generator calls -------------------------------------------------------------------------

    @property
    def model_name(self) -> str:
        return self._model_path

    async def render_chat_completion(self, request_payload: dict[str, Any]) -> dict[str, Any]:
        tokens, frames = self._renderer.render(request_payload["json"]["messages"])
        return {"token_ids": tokens, "features": {"kwargs_data": {"image": frames}}}

    async def generate(
        self, input_batch: InferenceEngineInput, model: str | None = None
    ) -> InferenceEngineOutput:
        [prompt], [session] = input_batch["prompt_token_ids"], input_batch["session_ids"]
        [features] = input_batch["mm_features"]
        sampling = self._sampling(input_batch["sampling_params"])
        request = self._continue_session(str(session), prompt, features["kwargs_data"]["image"])
        completion = await self._answer(request, sampling)
        state = self._sessions[str(session)]
        state.cached = prompt + completion.tokens[:-1]
        return {
            "responses": [self._renderer.decode(completion.tokens)],
            "response_ids": [list(completion.tokens)],
            "stop_reasons": ["stop" if completion.ended else "length"],
            "response_logprobs": [list(completion.log_probabilities)],
        }

    def _continue_session(self, session: str, prompt: list[int], frames: list[Frame]) -> Request:
        state = self._sessions.setdefault(session, _Session())
        seen = len(state.cached)
        if prompt[:seen] != state.cached:
            raise ValueError(
                f"session {session}: the new turn does not extend the {seen} tokens of the turns before"
            )
        new_frames = frames[state.frames :]
        state.frames = len(frames)
        return Request(session=session, seen=seen, tokens=prompt[seen:], frames=new_frames)

    @functools.cached_property
    def _turn_end(self) -> int:
        return int(self._renderer._tokenizer.convert_tokens_to_ids(TURN_END))

    def _sampling(self, params: dict[str, Any]) -> Sampling:
        return Sampling(
            temperature=float(params["temperature"]),
            max_tokens=int(params["max_tokens"]),
            allowed_tokens=tuple(params["allowed_token_ids"]),
            end_token=self._turn_end,
        )

    async def _answer(self, request: Request, sampling: Sampling) -> Completion:
        queue_index = zlib.crc32(request.session.encode()) % len(self._engines)
        queue = self._queues[queue_index]
        future: asyncio.Future[Completion] = asyncio.get_running_loop().create_future()
        queue.waiting.append((request, sampling, future))
        if queue.serving is None or queue.serving.done():
            queue.serving = asyncio.create_task(self._serve(queue, self._engines[queue_index]))
        return await future

    async def _serve(self, queue: _Queue, engine: Any) -> None:
        while queue.waiting:
            await asyncio.sleep(GATHER_SECONDS)
            batch, queue.waiting = queue.waiting, []
            finished, queue.finished_sessions = queue.finished_sessions, []
            sampling = batch[0][1]
            try:
                answers = await asyncio.wait_for(
                    engine.answer.remote([request for request, _, _ in batch], sampling, finished),
                    self._timeout_seconds,
                )
            except Exception as error:
                # Handed on to every caller that waits, so the run fails at once instead of hanging.
                for _, _, future in batch:
                    future.set_exception(error)
                raise
            for (_, _, future), answer in zip(batch, answers, strict=True):
                future.set_result(answer)

    async def finish_session(self, session_id: str) -> None:
        self._sessions.pop(session_id, None)
        queue = self._queues[zlib.crc32(session_id.encode()) % len(self._engines)]
        queue.finished_sessions.append(session_id)

    # --- what the trainer and the workers call ------------------------------------------------------------

    async def load_lora_adapter(self, lora_name: str, lora_path: str) -> dict[str, Any]:
        await asyncio.wait_for(
            asyncio.gather(*(engine.load_adapter.remote(lora_path) for engine in self._engines)),
            self._timeout_seconds,
        )
        return {"status": "ok", "lora_name": lora_name}

    async def update_named_weights(self, request: Any) -> None:
        await self.load_lora_adapter(request.lora_name, request.lora_path)

    def increment_weight_version(self) -> None:
        self.weight_version += 1

    async def sleep(self, *args: Any, **kwargs: Any) -> None:
        self._sleeping = True

    async def wake_up(self, *args: Any, **kwargs: Any) -> None:
        self._sleeping = False

    async def is_sleeping(self) -> bool:
        return self._sleeping

    async def reset_prefix_cache(self, reset_running_requests: bool = False) -> None:
        """Engines forget all sessions when they load an adapter."""

    async def pause_generation(self) -> None:
        """Never called with colocated engines."""

    async def resume_generation(self) -> None:
        """Never called with colocated engines."""

    async def get_world_size(self) -> tuple[int, int]:
        return len(self._engines), 1

    async def teardown(self) -> None:
        """The engines end with the job."""

    def get_endpoint_url(self) -> NoReturn:
        raise NotImplementedError("the local engines are Ray actors and serve no HTTP")

    async def chat_completion(self, request_payload: dict[str, Any]) -> NoReturn:
        raise NotImplementedError("the vision-language generator sends tokens, not chats")

    async def completion(self, request_payload: dict[str, Any]) -> NoReturn:
        raise NotImplementedError("the vision-language generator sends tokens, not texts")
