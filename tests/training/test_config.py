"""A profile that cannot be run as asked is refused at once, with field, value, rule and remedy."""

import pytest

from training.config import PROFILES, JobConfig, load_config, parse_config
from training.faults import ConfigError

BAD = [
    # (override, value, words of the message)
    ("seeds", 1, ["seeds", "is not a known key", "seed"]),
    ("seed", "one", ["seed = one", "valid integer"]),
    ("seed", -1, ["seed = -1", "greater than or equal to 0"]),
    ("seed", 1.5, ["seed = 1.5", "valid integer"]),
    ("maze", 9, ["maze = 9", "size, max_turns"]),
    ("maze.size", 8, ["maze.size = 8", "must be odd", "Use 7 or 9."]),
    ("maze.size", 3, ["maze.size = 3", "greater than or equal to 5", "odd number of cells"]),
    ("maze.size", 53, ["maze.size = 53", "less than or equal to 51"]),
    ("maze.sise", 9, ["maze.sise = 9", "is not a known key", "max_turns, size"]),
    ("maze.max_turns", 0, ["maze.max_turns = 0", "greater than or equal to 1"]),
    ("maze.max_turns", True, ["maze.max_turns = True", "valid integer"]),
    ("reward.task", 0.0, ["reward.task = 0.0", "greater than 0"]),
    ("reward.format", -0.1, ["reward.format = -0.1", "greater than or equal to 0"]),
    ("reward.bonus", 1.0, ["reward.bonus", "format, task"]),
    ("evaluation.mazes", 65, ["evaluation.mazes = 65", "less than or equal to 64"]),
    ("evaluation.temperature", -1.0, ["evaluation.temperature = -1.0"]),
    ("evaluation.goal_solved_share", 1.1, ["evaluation.goal_solved_share = 1.1"]),
    ("evaluation.every_steps", 0, ["evaluation.every_steps = 0"]),
    ("trainer.hardware", "tpu", ["trainer.hardware = tpu", "gpu, or cpu"]),
    ("trainer.nodes", 0, ["trainer.nodes = 0", "nodes that train"]),
    ("trainer.gpus_per_node", 0, ["trainer.gpus_per_node = 0"]),
    ("trainer.gpus_per_node", 7, ["mazes_per_step = 24", "each of 7 GPUs", "Use 84."]),
    ("trainer.grpo.mazes_per_step", 26, ["mazes_per_step = 26", "Use 24 or 36."]),
    ("trainer.grpo.samples_per_pass", 32, ["mazes_per_step = 24", "passes of 32", "Use 16 or 32."]),
    ("trainer.model", "/shared/models/x", ["trainer.model", "trainer.warm_start must not be both given"]),
    ("trainer.warm_start", None, ["trainer.model = None", "must not be both given or both left out"]),
    ("trainer.warm_start.noise", 1.0, ["trainer.warm_start.noise = 1.0", "less than 1"]),
    ("trainer.warm_start.vision_steps", 0, ["trainer.warm_start.vision_steps = 0"]),
    ("trainer.checkpoint_every", 0, ["trainer.checkpoint_every = 0"]),
    ("trainer.checkpoints_kept", 1, ["trainer.checkpoints_kept = 1", "the one before is all a run has"]),
    ("trainer.max_input_tokens", 10, ["trainer.max_input_tokens = 10"]),
    ("trainer.max_answer_tokens", 0, ["trainer.max_answer_tokens = 0"]),
    ("trainer.lora.rank", 0, ["trainer.lora.rank = 0"]),
    ("trainer.kl", 0.1, ["trainer.kl", "is not a known key"]),
    ("trainer.grpo.steps", 0, ["trainer.grpo.steps = 0"]),
    ("trainer.grpo.samples_per_maze", 1, ["samples_per_maze = 1", "one alone has no advantage"]),
    ("trainer.grpo.clip", 1.0, ["trainer.grpo.clip = 1.0", "less than 1"]),
    ("trainer.grpo.temperature", 0.0, ["trainer.grpo.temperature = 0.0", "greater than 0"]),
    ("trainer.grpo.learning_rate", 0.0, ["trainer.grpo.learning_rate = 0.0"]),
    ("trainer.grpo.learning_rate_schedule", "step", ["learning_rate_schedule = step", "constant"]),
    ("seed.deep", 1, ["seed.deep = 1", "seed is not a section"]),
]


# (overrides of the walkthrough, words of the message): what cannot fit its cards, or SkyRL's batches
TOO_LARGE = [
    ({"trainer.max_input_tokens": 8192}, ["max_input_tokens = 8192", "Give at least 11408"]),
    ({"maze.max_turns": 30}, ["max_input_tokens = 12288", "before turn 30"]),
    ({"maze.size": 11, "maze.max_turns": 25}, ["frames of 81 tokens"]),
    ({"trainer.engine.gpu_memory_share": 0.2}, ["gpu_memory_share = 0.2", "share of at least 0.23"]),
    ({"trainer.gpu_memory_gib": 45.0}, ["gpu_memory_share = 0.45", "20.2 of 45 GiB"]),
    ({"trainer.grpo.samples_per_pass": 32}, ["samples_per_pass = 32", "fewer samples a pass"]),
    ({"trainer.engine.gpu_memory_share": 1.0}, ["gpu_memory_share = 1.0", "less than 1"]),
    ({"trainer.grpo.mazes_per_step": 32}, ["mazes_per_step = 32", "6 GPUs"]),
]


@pytest.mark.parametrize(("overrides", "words"), TOO_LARGE, ids=[str(row[0]) for row in TOO_LARGE])
def test_what_cannot_run_on_the_cards_is_refused_before_one_is_touched(overrides, words):
    with pytest.raises(ConfigError) as refusal:
        load_config("walkthrough", overrides=overrides)
    for word in words:
        assert word in str(refusal.value)


@pytest.mark.parametrize(("path", "value", "words"), BAD, ids=[f"{path}={value}" for path, value, _ in BAD])
def test_bad_choices_are_refused_with_field_value_rule_and_remedy(path, value, words):
    with pytest.raises(ConfigError) as refusal:
        load_config("rehearsal", overrides={path: value})
    for word in words:
        assert word in str(refusal.value)
    assert all(fault.remedy for fault in refusal.value.faults)


def test_a_goal_above_what_the_turns_allow_is_refused_with_the_turns_it_needs():
    with pytest.raises(ConfigError, match="solve 50 of 64 mazes") as refusal:
        load_config("rehearsal", overrides={"maze.max_turns": 15, "evaluation.goal_solved_share": 0.95})
    assert "Give at least 17 turns" in str(refusal.value)
    load_config("rehearsal", overrides={"maze.max_turns": 17, "evaluation.goal_solved_share": 0.95})


def test_every_fault_is_reported_at_once():
    with pytest.raises(ConfigError) as refusal:
        load_config("smoke", overrides={"seed": -1, "maze.max_turns": 0, "maze.colour": "red"})
    assert {fault.field for fault in refusal.value.faults} == {"seed", "maze.max_turns", "maze.colour"}


def test_an_unknown_profile_names_those_there_are():
    with pytest.raises(
        ConfigError, match=r"profile = walk: is not among the profiles. Use one of: .*rehearsal"
    ):
        load_config("walk")


@pytest.mark.parametrize("profile", sorted(path.stem for path in PROFILES.glob("*.yaml")))
def test_shipped_profiles_are_valid_and_survive_json(profile):
    config = load_config(profile)
    assert config.profile == profile
    assert JobConfig.model_validate_json(config.model_dump_json()) == config


def test_evaluation_mazes_are_the_published_ones_in_order():
    config = load_config("rehearsal")
    assert [maze.seed for maze in config.evaluation_mazes()] == list(range(64))
    assert sum(maze.shortest_turns == 13 for maze in config.evaluation_mazes()) == 50


def test_a_config_without_a_profile_name_is_refused():
    with pytest.raises(ConfigError, match=r"profile = \(missing\): is required. Name the profile"):
        parse_config({})
