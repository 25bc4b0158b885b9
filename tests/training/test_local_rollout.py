"""The CPU rollout engine against the model it samples from, and the renderer against the chat template."""

import asyncio
from pathlib import Path

import numpy as np
import pytest
import torch
from peft import LoraConfig, get_peft_model
from PIL import Image
from transformers import AutoTokenizer, Qwen3VLForConditionalGeneration

from training.actions import ACTIONS
from training.local import tiny_model
from training.local.inference_client import LocalInferenceClient, Renderer
from training.local.rollout_engine import Request, RolloutEngine, Sampling
from training.local.shrinking import Shrinking
from training.local.warm_start import WarmStart, demonstrate, patches, player_probabilities
from training.maze import FEEDBACK_DONE, MazeEnvironment, best_action, maze_for, prompt_for, render

SIZE = 5
MAZE = maze_for(size=SIZE, seed=3)


@pytest.fixture(scope="module")
def model_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tiny")
    tokenizer = tiny_model.build_tokenizer(maze_size=SIZE)
    tiny_model.save(
        folder,
        model=tiny_model.build_model(maze_size=SIZE, tokenizer=tokenizer, seed=0),
        tokenizer=tokenizer,
        image_processor=tiny_model.build_image_processor(maze_size=SIZE),
    )
    return folder


def conversation(*answers: str) -> list[dict[str, object]]:
    """A conversation as the environment and SkyRL's generator build it."""
    from training.environment import MazeTextEnv

    environment = MazeTextEnv(extras={"size": SIZE, "seed": MAZE.seed, "max_turns": 20})
    messages, _ = environment.init([])
    for answer in answers:
        messages += [{"role": "assistant", "content": answer}, *environment.step(answer)["observations"]]
    return messages


def log_probabilities_of_model(
    model: torch.nn.Module, tokens: list[int], frames: list[np.ndarray]
) -> torch.Tensor:
    """Log-probabilities of each next token, from Hugging Face's own forward pass over the whole sequence."""
    ids = torch.tensor([tokens])
    with torch.no_grad():
        logits = model(
            input_ids=ids,
            pixel_values=torch.from_numpy(np.concatenate(frames)),
            image_grid_thw=torch.ones((len(frames), 3), dtype=torch.long),
            mm_token_type_ids=(ids == model.config.image_token_id).int(),
        ).logits
    return logits[0].log_softmax(-1)


def moves_only(tokenizer: object) -> tuple[int, ...]:
    """No stop, so that a conversation can be continued."""
    *moves, _, end = tiny_model.action_token_ids(tokenizer)
    return (*moves, end)


def sampling(tokenizer: object, *, temperature: float = 1.0) -> Sampling:
    allowed = moves_only(tokenizer)
    return Sampling(temperature=temperature, max_tokens=2, allowed_tokens=allowed, end_token=allowed[-1])


def test_every_action_and_feedback_is_one_token_that_survives_decoding_and_encoding(
    model_folder: Path,
) -> None:
    tokenizer = AutoTokenizer.from_pretrained(model_folder)
    for text in (*map(str, ACTIONS), FEEDBACK_DONE, prompt_for(SIZE)):
        tokens = tokenizer.encode(text)
        assert len(tokens) == 1
        assert tokenizer.decode(tokens, skip_special_tokens=True) == text


def test_rendering_message_by_message_equals_the_whole_chat_template(model_folder: Path) -> None:
    renderer = Renderer(str(model_folder))
    tokenizer = AutoTokenizer.from_pretrained(model_folder)
    messages = conversation("('move', 0)", "up, I think", "('move', 1)")
    tokens, frames = renderer.render(messages)
    assert tokens == tokenizer.apply_chat_template(messages, add_generation_prompt=True, return_dict=False)
    assert len(frames) == tokens.count(tokenizer.convert_tokens_to_ids(tiny_model.IMAGE)) == 4


ONE_SHADE = 1 / 255 / tiny_model.PIXEL_SPREAD


@pytest.mark.parametrize(
    ("shrinking", "tolerance"), [(Shrinking.BOX, 1e-5), (Shrinking.BILINEAR, 1.01 * ONE_SHADE)]
)
def test_patches_from_the_layout_equal_the_processed_frames(shrinking: Shrinking, tolerance: float) -> None:
    processor = tiny_model.build_image_processor(maze_size=SIZE, shrinking=shrinking)
    cells = list(MAZE.next_cells)
    drawn = processor([Image.fromarray(render(MAZE, cell)) for cell in cells], return_tensors="np")
    np.testing.assert_allclose(patches(MAZE, cells, shrinking), drawn["pixel_values"], atol=tolerance)


def test_attention_over_single_patches_equals_hugging_faces_loop(
    model_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from transformers.models.qwen3_vl.modeling_qwen3_vl import Qwen3VLVisionAttention

    model = Qwen3VLForConditionalGeneration.from_pretrained(model_folder)
    frames = torch.from_numpy(patches(MAZE, list(MAZE.next_cells), Shrinking.BOX))
    grid = torch.ones((len(frames), 3), dtype=torch.long)
    expected = model.model.visual(frames, grid_thw=grid).pooler_output
    monkeypatch.setattr(Qwen3VLVisionAttention, "forward", Qwen3VLVisionAttention.forward)
    tiny_model.use_single_patch_attention()
    torch.testing.assert_close(model.model.visual(frames, grid_thw=grid).pooler_output, expected)


def test_log_probabilities_of_the_cached_engine_equal_a_full_forward_pass(model_folder: Path) -> None:
    """Several turns in sessions of different lengths: what GRPO's ratio compares must be the same number."""
    renderer = Renderer(str(model_folder))
    tokenizer = AutoTokenizer.from_pretrained(model_folder)
    model = Qwen3VLForConditionalGeneration.from_pretrained(model_folder)
    engine = RolloutEngine(model_path=str(model_folder), sessions=2, max_tokens=512, seed=0)
    answers: dict[str, list[str]] = {"a": [], "b": ["('move', 0)", "nonsense"]}
    cached: dict[str, list[int]] = {"a": [], "b": []}
    for _ in range(3):
        requests = []
        for session, said in answers.items():
            tokens, frames = renderer.render(conversation(*said))
            seen = len(cached[session])
            known_frames = sum(
                t == tokenizer.convert_tokens_to_ids(tiny_model.IMAGE) for t in cached[session]
            )
            requests.append(Request(session, seen, tokens[seen:], frames[known_frames:]))
        for request, completion in zip(requests, engine.generate(requests, sampling(tokenizer)), strict=True):
            tokens, frames = renderer.render(conversation(*answers[request.session]))
            whole = tokens + completion.tokens
            expected = log_probabilities_of_model(model, whole, frames)
            for offset, (token, score) in enumerate(
                zip(completion.tokens, completion.log_probabilities, strict=True)
            ):
                assert score == pytest.approx(float(expected[len(tokens) + offset - 1, token]), abs=1e-4)
            cached[request.session] = tokens + completion.tokens[:-1]
            answers[request.session].append(renderer.decode(completion.tokens))


def test_the_engine_refuses_a_turn_that_builds_on_tokens_it_does_not_have(model_folder: Path) -> None:
    engine = RolloutEngine(model_path=str(model_folder), sessions=1, max_tokens=64, seed=0)
    tokenizer = AutoTokenizer.from_pretrained(model_folder)
    with pytest.raises(ValueError, match="0 tokens are cached, the request builds on 7"):
        engine.generate([Request("a", 7, [1, 2, 3], [])], sampling(tokenizer))


def test_only_allowed_tokens_are_sampled(model_folder: Path) -> None:
    renderer = Renderer(str(model_folder))
    tokenizer = AutoTokenizer.from_pretrained(model_folder)
    engine = RolloutEngine(model_path=str(model_folder), sessions=64, max_tokens=128, seed=0)
    tokens, frames = renderer.render(conversation())
    rules = sampling(tokenizer)
    completions = engine.generate([Request(f"{i}", 0, tokens, frames) for i in range(64)], rules)
    assert {token for c in completions for token in c.tokens} <= set(rules.allowed_tokens)


def test_an_adapter_changes_the_engine_as_peft_changes_the_model(model_folder: Path, tmp_path: Path) -> None:
    base = Qwen3VLForConditionalGeneration.from_pretrained(model_folder)
    lora = LoraConfig(r=4, lora_alpha=8, target_modules="all-linear", exclude_modules=".*visual.*")
    adapted = get_peft_model(base, lora)
    generator = torch.Generator().manual_seed(0)
    for name, parameter in adapted.named_parameters():
        if "lora_B" in name:
            parameter.data = torch.randn(parameter.shape, generator=generator)
    adapted.save_pretrained(tmp_path)
    tokenizer = AutoTokenizer.from_pretrained(model_folder)
    tokens, frames = Renderer(str(model_folder)).render(conversation())
    engine = RolloutEngine(model_path=str(model_folder), sessions=1, max_tokens=128, seed=0)
    engine.load_adapter(str(tmp_path))
    engine.load_adapter(str(tmp_path))  # a second adapter replaces the first, it is not added to it
    [completion] = engine.generate([Request("a", 0, tokens, frames)], sampling(tokenizer, temperature=0))
    expected = log_probabilities_of_model(adapted, tokens, frames)[-1]
    assert completion.log_probabilities[0] == pytest.approx(float(expected[completion.tokens[0]]), abs=1e-3)
    vision = [name for name, _ in adapted.named_parameters() if "lora" in name and "visual" in name]
    assert not vision


def test_the_client_sends_each_engine_only_what_is_new_of_a_conversation(model_folder: Path) -> None:
    sent: list[Request] = []
    engine = RolloutEngine(model_path=str(model_folder), sessions=4, max_tokens=512, seed=0)

    class InProcess:
        """Looks like an actor handle whose answers are awaitable."""

        class answer:
            @staticmethod
            async def remote(requests: list[Request], rules: Sampling, finished: list[str]) -> object:
                sent.extend(requests)
                engine.finish(finished)
                return engine.generate(requests, rules)

    tokenizer = AutoTokenizer.from_pretrained(model_folder)
    client = LocalInferenceClient(model_path=str(model_folder), engines=[InProcess], timeout_seconds=30)
    rules = {"temperature": 1.0, "max_tokens": 2, "allowed_token_ids": moves_only(tokenizer)}

    async def play() -> None:
        said: list[str] = []
        for _ in range(3):
            rendered = await client.render_chat_completion({"json": {"messages": conversation(*said)}})
            output = await client.generate(
                {
                    "prompt_token_ids": [rendered["token_ids"]],
                    "session_ids": ["s"],
                    "sampling_params": rules,
                    "mm_features": [rendered["features"]],
                }
            )
            said.append(output["responses"][0])

    asyncio.run(play())
    assert [len(request.frames) for request in sent] == [1, 1, 1]
    assert [request.seen > 0 for request in sent] == [False, True, True]


def test_the_demonstrating_player_is_best_most_of_the_time_and_never_stops_by_mistake() -> None:
    move = best_action(MAZE, MAZE.start)
    probabilities = player_probabilities(move, 0.4)
    assert sum(probabilities) == pytest.approx(1)
    assert probabilities[ACTIONS.index(move)] == pytest.approx(0.7)
    assert probabilities[-1] == 0


def test_a_demonstration_is_what_the_environment_would_have_shown(model_folder: Path) -> None:
    import random

    tokenizer = AutoTokenizer.from_pretrained(model_folder)
    shown = demonstrate(MAZE, turns=4, noise=0.5, tokenizer=tokenizer, stream=random.Random(1))
    names = tokenizer.convert_ids_to_tokens(shown.tokens)
    played = [name for name in names if name in set(map(str, ACTIONS))]
    environment = MazeEnvironment(maze=MAZE, max_turns=20)
    cells = [environment.agent]
    for answer in played:
        environment.step(answer)
        cells.append(environment.agent)
    assert cells == shown.cells
    tokens, _ = Renderer(str(model_folder)).render(conversation(*played))
    assert tokens == shown.tokens


def test_the_warm_start_is_named_by_everything_that_decides_it() -> None:
    assert WarmStart().digest == WarmStart().digest
    assert WarmStart().digest != WarmStart(noise=0.1).digest
