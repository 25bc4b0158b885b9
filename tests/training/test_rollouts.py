"""The generator that renders each message once, against a render endpoint played by the tokenizer itself."""

import asyncio
import hashlib
from pathlib import Path
from typing import Any

import pytest
from skyrl.train.config import SkyRLTrainConfig
from skyrl.train.generators.skyrl_vlm_generator import SkyRLVLMGymGenerator
from transformers import AutoTokenizer

from training.environment import MazeTextEnv
from training.local import tiny_model
from training.maze import maze_for, solution
from training.rollouts import RenderMismatchError, RenderOnceGenerator

SIZE = 5
SAMPLES = 8

# Empties every answer but the newest, as templates of thinking models drop the thoughts of earlier turns.
FORGETFUL_TEMPLATE = tiny_model.CHAT_TEMPLATE.replace(
    "{{ message.content }}", "{{ message.content if loop.last else '' }}"
)


class RenderEndpoint:
    """vLLM's render endpoint: token ids, and per picture a hash, a place and a tensor."""

    model_name = "tiny"

    def __init__(self, tokenizer: Any) -> None:
        self._tokenizer = tokenizer
        self.pictures = 0

    async def render_chat_completion(self, payload: dict[str, Any]) -> dict[str, Any]:
        messages = payload["json"]["messages"]
        tokens = self._tokenizer.apply_chat_template(messages, add_generation_prompt=True, return_dict=False)
        image = self._tokenizer.convert_tokens_to_ids(tiny_model.IMAGE)
        urls = [
            part["image_url"]["url"]
            for message in messages
            if isinstance(message["content"], list)
            for part in message["content"]
            if part["type"] == "image_url"
        ]
        self.pictures += len(urls)
        hashes = [hashlib.sha256(url.encode()).hexdigest() for url in urls]
        places = [{"offset": at, "length": 1} for at, token in enumerate(tokens) if token == image]
        return {
            "token_ids": tokens,
            "features": {
                "mm_hashes": {"image": hashes},
                "mm_placeholders": {"image": places},
                "kwargs_data": {"image": [f"tensor of {digest}" for digest in hashes]},
                "mm_metadata": None,
            },
        }


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory: pytest.TempPathFactory) -> Any:
    folder: Path = tmp_path_factory.mktemp("tokenizer")
    tiny_model.build_tokenizer(maze_size=SIZE).save_pretrained(folder)
    return AutoTokenizer.from_pretrained(folder)


def generator_of(kind: type[SkyRLVLMGymGenerator], tokenizer: Any) -> tuple[Any, RenderEndpoint]:
    config = SkyRLTrainConfig.from_cli_overrides(
        ["generator.vision_language_generator=true", "generator.batched=false"]
    )
    endpoint = RenderEndpoint(tokenizer)
    generator = kind(
        generator_cfg=config.generator,
        skyrl_gym_cfg=config.environment.skyrl_gym,
        inference_engine_client=endpoint,
        tokenizer=tokenizer,
    )
    return generator, endpoint


def growing_conversations(seed: int) -> list[list[dict[str, Any]]]:
    """What the generator asks to be rendered, turn by turn, in an episode of shortest moves."""
    environment = MazeTextEnv(None, {"size": SIZE, "seed": seed, "max_turns": 20})
    conversation, _ = environment.init([])
    conversations = [list(conversation)]
    for action in solution(maze_for(size=SIZE, seed=seed))[:-1]:
        answer = {"role": "assistant", "content": str(action)}
        conversation = [*conversation, answer, *environment.step(str(action))["observations"]]
        conversations.append(conversation)
    return conversations


async def play(generator: Any, conversations: list[list[dict[str, Any]]]) -> list[Any]:
    return [await generator._render_conversation(conversation) for conversation in conversations]


def test_rendering_message_by_message_gives_what_the_server_gives_for_the_whole(tokenizer: Any) -> None:
    ours, _ = generator_of(RenderOnceGenerator, tokenizer)
    skyrls, _ = generator_of(SkyRLVLMGymGenerator, tokenizer)
    conversations = growing_conversations(seed=3)
    for mine, whole in zip(
        asyncio.run(play(ours, conversations)), asyncio.run(play(skyrls, conversations)), strict=True
    ):
        assert mine["prompt_ids"] == whole["prompt_ids"]
        for part in ("mm_hashes", "mm_placeholders", "kwargs_data"):
            assert mine["features"][part] == whole["features"][part]


def test_samples_of_one_maze_have_each_picture_rendered_once(tokenizer: Any) -> None:
    generator, endpoint = generator_of(RenderOnceGenerator, tokenizer)
    generator._unchecked = 0
    conversations = growing_conversations(seed=3)

    async def play_together() -> None:
        await asyncio.gather(*(play(generator, conversations) for _ in range(SAMPLES)))

    asyncio.run(play_together())
    assert endpoint.pictures == len(conversations)


def test_a_template_that_edits_history_ends_the_run(tokenizer: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tokenizer, "chat_template", FORGETFUL_TEMPLATE)
    generator, _ = generator_of(RenderOnceGenerator, tokenizer)
    with pytest.raises(RenderMismatchError, match="render_once must be false"):
        asyncio.run(play(generator, growing_conversations(seed=3)))
