"""Does the run fit: tokens in the conversation, memory on the GPU and in the node, room on the shared disk?

Lower bounds from the model's published shape, computed before a GPU is touched. What exceeds them cannot
work; what stays within them is still measured by the run itself. All memory is in GiB (2**30 bytes).

Sources: Qwen3-VL-8B's config.json for the shape; SkyRL 0.4.0 for what is stored where (weights are trained
in fp32 and sharded over all GPUs, checkpoints hold the whole model in fp32, engines sleep at level 1 and
park their weights in the node's memory); VisGym for the frames.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from training.faults import Fault
from training.maze import CELL_PIXELS

GIB = 2**30
BF16_BYTES, FP32_BYTES = 2, 4
# Tokens that are neither picture nor answer, counted with Qwen's tokenizer and rounded up: the task in words
# with the chat template around it, and a turn's feedback with its template and the two marks of a picture.
PROMPT_TOKENS = 260
TURN_TEXT_TOKENS = 22
# vLLM's own buffers beside weights and cache (CUDA context, graphs, activations of the largest batch).
ENGINE_OVERHEAD_GIB = 4.0


@dataclass(frozen=True, kw_only=True)
class ModelShape:
    """What a model's size follows from."""

    name: str
    parameters: float
    layers: int
    hidden: int
    key_value_heads: int
    head_size: int
    vocabulary: int
    pixels_per_token: int
    """Side of the square of pixels that becomes one image token: patch size times merge size."""


QWEN3_VL_8B = ModelShape(
    name="Qwen3-VL-8B",
    parameters=8.77e9,
    layers=36,
    hidden=4096,
    key_value_heads=8,
    head_size=128,
    vocabulary=151_936,
    pixels_per_token=32,
)


@dataclass(frozen=True, kw_only=True)
class Workload:
    """The choices that decide whether a run fits."""

    model: ModelShape
    maze_size: int
    max_turns: int
    max_input_tokens: int
    max_answer_tokens: int
    nodes: int
    gpus_per_node: int
    gpu_memory_gib: float
    engine_memory_share: float
    samples_per_pass: int
    checkpoints_kept: int


@dataclass(frozen=True, kw_only=True)
class Estimate:
    """What a run needs at the least."""

    image_tokens: int
    """Of one frame."""
    conversation_tokens: int
    """Before the last answer, if every turn is used and every answer is as long as allowed."""
    engine_gib: float
    """Of a GPU while rollouts are made: weights, overhead, cache of one conversation."""
    cached_conversations: int
    """Conversations of full length that one engine holds at once."""
    training_gib: float
    """Of a GPU while the policy is trained: its shard, one gathered layer, logits, layer inputs."""
    host_gib: float
    """Of a node's own memory: weights of the sleeping engines."""
    shared_gib: float
    """On the shared file system: the checkpoints kept and the one being written."""


def estimate(work: Workload) -> Estimate:
    """The lower bounds for a workload."""
    model, gpus = work.model, work.nodes * work.gpus_per_node
    tokens = conversation_tokens(work)
    weights_gib = model.parameters * BF16_BYTES / GIB
    cache_gib = tokens * _cache_bytes_per_token(model) / GIB
    room_gib = work.gpu_memory_gib * work.engine_memory_share - weights_gib - ENGINE_OVERHEAD_GIB
    return Estimate(
        image_tokens=image_tokens(work),
        conversation_tokens=tokens,
        engine_gib=weights_gib + ENGINE_OVERHEAD_GIB + cache_gib,
        cached_conversations=max(0, int(room_gib / cache_gib)),
        training_gib=_training_bytes(work, tokens, gpus) / GIB,
        host_gib=weights_gib * work.gpus_per_node,
        shared_gib=model.parameters * FP32_BYTES / GIB * (work.checkpoints_kept + 1),
    )


def image_tokens(work: Workload) -> int:
    """Tokens of one frame: its sides are rounded to whole tokens."""
    return max(1, round(work.maze_size * CELL_PIXELS / work.model.pixels_per_token)) ** 2


def conversation_tokens(work: Workload) -> int:
    """Tokens the model reads before its last answer, if it uses every turn and answers at full length."""
    a_turn = image_tokens(work) + TURN_TEXT_TOKENS
    return PROMPT_TOKENS + work.max_turns * a_turn + (work.max_turns - 1) * work.max_answer_tokens


def sizing_faults(work: Workload) -> Iterator[Fault]:
    """What cannot work, with the numbers."""
    need = estimate(work)
    yield from _conversation_too_long(work, need)
    yield from _engine_too_small(work, need)
    yield from _training_too_large(work, need)


def _cache_bytes_per_token(model: ModelShape) -> int:
    """Keys and values of all layers in bf16."""
    return 2 * model.layers * model.key_value_heads * model.head_size * BF16_BYTES


def _training_bytes(work: Workload, tokens: int, gpus: int) -> float:
    """At the least: fp32 shard, one layer gathered in bf16, logits in bf16, inputs of checkpointed layers."""
    model = work.model
    tokens_in_pass = work.samples_per_pass * min(tokens, work.max_input_tokens)
    shard = model.parameters * FP32_BYTES / gpus
    gathered = model.parameters / model.layers * BF16_BYTES
    logits = tokens_in_pass * model.vocabulary * BF16_BYTES
    layer_inputs = tokens_in_pass * model.hidden * model.layers * BF16_BYTES
    return shard + gathered + logits + layer_inputs


def _conversation_too_long(work: Workload, need: Estimate) -> Iterator[Fault]:
    if need.conversation_tokens <= work.max_input_tokens:
        return
    spare = work.max_input_tokens - (need.conversation_tokens - (work.max_turns - 1) * work.max_answer_tokens)
    shorter = spare // max(1, work.max_turns - 1)
    advice = f", or trainer.max_answer_tokens of at most {shorter}" if shorter > 0 else ""
    yield Fault(
        field="trainer.max_input_tokens",
        value=work.max_input_tokens,
        rule=(
            f"cuts an episode off before turn {work.max_turns}: "
            f"{work.max_turns} frames of {need.image_tokens} tokens "
            f"and answers of {work.max_answer_tokens} come to {need.conversation_tokens}"
        ),
        remedy=f"Give at least {need.conversation_tokens}{advice}.",
    )


def _engine_too_small(work: Workload, need: Estimate) -> Iterator[Fault]:
    share = work.engine_memory_share
    if need.engine_gib > work.gpu_memory_gib * share:
        enough = -(-need.engine_gib // (work.gpu_memory_gib / 100)) / 100
        fits = f"Give a share of at least {enough:.2f}" if enough < 1 else "Give GPUs with more memory"
        yield Fault(
            field="trainer.engine.gpu_memory_share",
            value=share,
            rule=(
                f"gives an engine {work.gpu_memory_gib * share:.1f} of {work.gpu_memory_gib:.0f} GiB, "
                f"but weights, buffers and one conversation of {work.model.name} take {need.engine_gib:.1f}"
            ),
            remedy=f"{fits}.",
        )


def _training_too_large(work: Workload, need: Estimate) -> Iterator[Fault]:
    if need.training_gib > work.gpu_memory_gib:
        yield Fault(
            field="trainer.grpo.samples_per_pass",
            value=work.samples_per_pass,
            rule=(
                f"takes at least {need.training_gib:.1f} GiB of a GPU with {work.gpu_memory_gib:.0f}: "
                f"a shard of 1 in {work.nodes * work.gpus_per_node} "
                f"and the logits of {work.samples_per_pass} conversations"
            ),
            remedy="Give fewer samples a pass, shorter conversations, or more GPUs.",
        )
