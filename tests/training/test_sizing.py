"""What cannot fit is refused with its numbers; the walkthrough fits."""

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from training.sizing import QWEN3_VL_8B, Workload, conversation_tokens, estimate, image_tokens, sizing_faults

WALKTHROUGH = Workload(
    model=QWEN3_VL_8B,
    maze_size=9,
    max_turns=20,
    max_input_tokens=12_288,
    max_answer_tokens=512,
    nodes=3,
    gpus_per_node=2,
    gpu_memory_gib=96,
    engine_memory_share=0.45,
    samples_per_pass=4,
    checkpoints_kept=2,
)


def changed(**changes):
    return dataclasses.replace(WALKTHROUGH, **changes)


def test_the_walkthrough_fits_its_cards():
    assert list(sizing_faults(WALKTHROUGH)) == []


def test_known_sizes_are_met():
    """bf16 weights of 17.6 GB, 35 GB of fp32 a checkpoint, 144 KiB of cache a token, 49 tokens a frame."""
    need = estimate(WALKTHROUGH)
    gib = 2**30
    assert need.host_gib * gib / 2 == pytest.approx(17.6e9, rel=0.01)
    assert need.shared_gib * gib / 3 == pytest.approx(35e9, rel=0.01)
    assert need.image_tokens == 49
    assert image_tokens(changed(maze_size=11)) == 81
    one_more = changed(max_answer_tokens=513)
    bytes_per_token = (estimate(one_more).engine_gib - need.engine_gib) * gib / 19
    assert bytes_per_token == pytest.approx(147_456)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"max_input_tokens": 8192}, ["max_input_tokens = 8192", "Give at least 11408", "at most 342"]),
        ({"max_turns": 30}, ["before turn 30", "Give at least"]),
        ({"max_answer_tokens": 1024}, ["answers of 1024", "at most 558"]),
        ({"max_input_tokens": 1024}, ["Give at least 11408."]),
        ({"engine_memory_share": 0.2}, ["gives an engine 19.2 of 96 GiB", "share of at least 0.23"]),
        ({"gpu_memory_gib": 45.0}, ["gpu_memory_share = 0.45", "share of at least 0.49"]),
        ({"gpu_memory_gib": 20.0}, ["Give GPUs with more memory"]),
        ({"samples_per_pass": 32}, ["samples_per_pass = 32", "GPU with 96", "fewer samples a pass"]),
        ({"nodes": 1, "gpus_per_node": 1, "gpu_memory_gib": 45.0}, ["a shard of 1 in 1"]),
    ],
)
def test_what_cannot_fit_is_refused_with_numbers(changes, words):
    faults = list(sizing_faults(changed(**changes)))
    text = "\n".join(map(str, faults))
    for word in words:
        assert word in text


@given(
    max_turns=st.integers(1, 60),
    max_answer_tokens=st.integers(1, 2048),
    maze_size=st.sampled_from([5, 9, 11, 15]),
    max_input_tokens=st.integers(64, 40_000),
)
def test_a_conversation_is_refused_exactly_when_it_does_not_fit_and_the_remedy_helps(**changes):
    work = changed(**changes, gpu_memory_gib=10_000)
    faults = [fault for fault in sizing_faults(work) if fault.field == "trainer.max_input_tokens"]
    assert bool(faults) is (conversation_tokens(work) > work.max_input_tokens)
    cured = dataclasses.replace(work, max_input_tokens=conversation_tokens(work))
    assert list(sizing_faults(cured)) == []


def test_more_gpus_and_fewer_samples_need_less_of_each_gpu():
    assert estimate(changed(nodes=4)).training_gib < estimate(WALKTHROUGH).training_gib
    assert estimate(changed(samples_per_pass=2)).training_gib < estimate(WALKTHROUGH).training_gib
    assert (
        estimate(changed(max_answer_tokens=64)).cached_conversations
        > estimate(WALKTHROUGH).cached_conversations
    )
