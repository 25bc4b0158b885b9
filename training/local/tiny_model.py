"""A Qwen3-VL of half a million parameters for mazes of one size: same classes and files as Qwen3-VL-8B.

Replaces the 8-billion-parameter checkpoint. The architecture is Hugging Face's Qwen3-VL (vision tower,
merger, M-RoPE text model, chat template with vision tokens), saved and loaded by the Auto classes. NOT
rehearsed: its knowledge, its memory and time, DeepStack (no tower layer feeds the text layers) and bfloat16.

Three choices make it quick on two cores:
- a frame is resized to one pixel a maze cell and is ONE patch, so it costs one token in the conversation and
  the vision tower is a residual MLP that can learn to read a maze in minutes;
- every text the environment sends and every action is one token, so a turn is a dozen tokens and an action
  survives decoding and encoding unchanged, as SkyRL's re-rendering of the conversation needs;
- only actions are sampled (`action_token_ids`), never a vision token: those would crash the forward pass.
"""

from pathlib import Path
from typing import Any

import torch
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
from torch import nn
from transformers import (
    GenerationConfig,
    PreTrainedTokenizerFast,
    Qwen3VLConfig,
    Qwen3VLForConditionalGeneration,
)
from transformers.image_utils import PILImageResampling
from transformers.models.qwen2_vl.image_processing_pil_qwen2_vl import Qwen2VLImageProcessorPil
from transformers.models.qwen3_vl.modeling_qwen3_vl import Qwen3VLVisionAttention

from training.actions import ACTIONS
from training.local.shrinking import Shrinking
from training.maze import FEEDBACK_DONE, FEEDBACK_WALL, prompt_for

PAD, TURN_START, TURN_END = "<|endoftext|>", "<|im_start|>", "<|im_end|>"
VISION_START, VISION_END, IMAGE, VIDEO = (
    "<|vision_start|>",
    "<|vision_end|>",
    "<|image_pad|>",
    "<|video_pad|>",
)
SPECIAL_TOKENS = (PAD, TURN_START, TURN_END, VISION_START, VISION_END, IMAGE, VIDEO)
# Grey walls and white paths end up at about -3 and +4, far enough apart for a small network.
PIXEL_MEAN, PIXEL_SPREAD = 0.8, 0.05
ASSISTANT = "assistant\n"
ROLES = ("system\n", "user\n", ASSISTANT)

CHAT_TEMPLATE = """\
{%- for message in messages %}<|im_start|>{{ message.role }}
{% if message.content is string %}{{ message.content }}{% else %}\
{%- for part in message.content %}\
{%- if part.type == 'text' %}{{ part.text }}{% else %}<|vision_start|><|image_pad|><|vision_end|>{% endif %}\
{%- endfor %}{% endif %}<|im_end|>
{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant
{% endif %}"""


def build_tokenizer(*, maze_size: int) -> PreTrainedTokenizerFast:
    """Bytes, the special tokens of Qwen, and one token for each text that a maze conversation repeats."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokenizer = Tokenizer(models.BPE(vocab={letter: i for i, letter in enumerate(alphabet)}, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([AddedToken(t, special=True, normalized=False) for t in SPECIAL_TOKENS])
    texts = (*ROLES, prompt_for(maze_size), FEEDBACK_DONE, FEEDBACK_WALL, *map(str, ACTIONS))
    tokenizer.add_tokens([AddedToken(text, normalized=False) for text in texts])
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, pad_token=PAD, eos_token=TURN_END, chat_template=CHAT_TEMPLATE
    )


def action_token_ids(tokenizer: PreTrainedTokenizerFast) -> list[int]:
    """The only tokens a policy may sample: the actions in the order of `ACTIONS`, and the end of a turn."""
    ids: list[int] = tokenizer.convert_tokens_to_ids([*map(str, ACTIONS), TURN_END])
    return ids


def build_image_processor(
    *, maze_size: int, shrinking: Shrinking = Shrinking.BOX
) -> Qwen2VLImageProcessorPil:
    """Qwen's own preprocessing, set to one pixel a cell and one patch a frame."""
    return Qwen2VLImageProcessorPil(
        patch_size=maze_size,
        merge_size=1,
        temporal_patch_size=1,
        min_pixels=maze_size**2,
        max_pixels=maze_size**2,
        resample=PILImageResampling[shrinking.name],
        image_mean=[PIXEL_MEAN] * 3,
        image_std=[PIXEL_SPREAD] * 3,
    )


def build_model(
    *, maze_size: int, tokenizer: PreTrainedTokenizerFast, seed: int
) -> Qwen3VLForConditionalGeneration:
    """An untrained model; most of its weights are in the vision tower."""

    def token(text: str) -> int:
        return int(tokenizer.convert_tokens_to_ids(text))

    config = Qwen3VLConfig(
        text_config={
            "vocab_size": len(tokenizer),
            "hidden_size": 64,
            "intermediate_size": 128,
            "num_hidden_layers": 2,
            "num_attention_heads": 4,
            "num_key_value_heads": 4,
            "head_dim": 16,
            "max_position_embeddings": 4096,
            "pad_token_id": token(PAD),
            "rope_parameters": {
                "rope_type": "default",
                "rope_theta": 10_000.0,
                "mrope_section": [4, 2, 2],
                "mrope_interleaved": True,
            },
        },
        vision_config={
            "depth": 3,
            "hidden_size": 128,
            "intermediate_size": 512,
            "num_heads": 4,
            "patch_size": maze_size,
            "spatial_merge_size": 1,
            "temporal_patch_size": 1,
            "out_hidden_size": 64,
            "num_position_embeddings": 1,
            "deepstack_visual_indexes": [],
            "initializer_range": 0.09,
        },
        image_token_id=token(IMAGE),
        video_token_id=token(VIDEO),
        vision_start_token_id=token(VISION_START),
        vision_end_token_id=token(VISION_END),
        tie_word_embeddings=True,
    )
    torch.manual_seed(seed)
    model = Qwen3VLForConditionalGeneration._from_config(config, attn_implementation="sdpa")
    model.generation_config = GenerationConfig(eos_token_id=token(TURN_END), pad_token_id=token(PAD))
    return model


def save(
    folder: Path, *, model: Qwen3VLForConditionalGeneration, tokenizer: Any, image_processor: Any
) -> None:
    """Write what `from_pretrained` and SkyRL read."""
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    image_processor.save_pretrained(folder)


def use_single_patch_attention() -> None:
    """Let the vision tower handle thousands of one-patch frames at once, in this process.

    Hugging Face runs attention once per image. Over a single key the softmax is one and attention is the
    value projection, so the loop is skipped. Raises ValueError for an image of more than one patch.
    """
    Qwen3VLVisionAttention.forward = _value_projection


def _value_projection(
    self: Qwen3VLVisionAttention, hidden_states: torch.Tensor, cu_seqlens: torch.Tensor, **_: Any
) -> torch.Tensor:
    if len(cu_seqlens) != len(hidden_states) + 1:
        raise ValueError(
            f"{len(hidden_states)} patches in {len(cu_seqlens) - 1} images: one patch each is needed"
        )
    value = nn.functional.linear(
        hidden_states, self.qkv.weight[2 * self.dim :], self.qkv.bias[2 * self.dim :]
    )
    output: torch.Tensor = self.proj(value)
    return output
