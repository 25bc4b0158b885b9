"""The parser understands what a model means, credits only the exact format, and never raises."""

import ast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from training.actions import ACTIONS, MAX_ANSWER_CHARACTERS, Move, Stop, parse_answer

RIGHT, UP, LEFT, DOWN, STOP = ACTIONS
prose = st.text(alphabet=st.characters(blacklist_characters="(<"), max_size=80)


@pytest.mark.parametrize(
    ("answer", "action", "well_formed"),
    [
        ("('move', 0)", RIGHT, True),
        ('("move", 3)', DOWN, True),
        ("  ('stop', 'stop')\n", STOP, True),
        ("('stop','now')", STOP, True),
        ("('move', 1,)", UP, True),
        ("<observation>a wall</observation><action>('move', 2)</action>", LEFT, True),
        ("<action>go ('move', 2)</action>", LEFT, False),
        ("I go up: ('move', 1).", UP, False),
        ("```python\n('move', 1)\n```", UP, False),
        ("('move', 0) is blocked, so ('move', 3)", DOWN, False),
        ("('move', 0) <action>('move', 1)</action> ('move', 2)", UP, True),
        ("('move', 4)", None, False),
        ("('move', -1)", None, False),
        ("('move', '0')", None, False),
        ("('move', True)", None, False),
        ("('move', 1.0)", None, False),
        ("('stop', 'target')", None, False),
        ("('stop', '')", None, False),
        ("('stop', 0)", None, False),
        ("('jump', 1)", None, False),
        ("('move', __import__('os').system('true'))", None, False),
        ("move 0", None, False),
        ("", None, False),
    ],
)
def test_answers(answer, action, well_formed):
    parsed = parse_answer(answer)
    assert parsed.action == action
    assert parsed.well_formed is well_formed
    assert bool(parsed.problem) is (action is None)


@given(action=st.sampled_from(ACTIONS), before=prose, after=prose)
def test_an_action_is_found_in_any_prose_and_credited_only_when_bare(action, before, after):
    parsed = parse_answer(f"{before}{action}{after}")
    assert parsed.action == action
    assert parsed.well_formed is not bool(before.strip() or after.strip())


@given(st.text())
def test_arbitrary_text_never_raises_and_never_earns_credit_without_an_action(answer):
    parsed = parse_answer(answer)
    assert parsed.action is not None or not parsed.well_formed


@given(
    name=st.sampled_from(["move", "stop", "fly"]),
    payload=st.one_of(st.integers(-5, 9), st.text("ab1_ ", max_size=6)),
)
def test_bare_tuples_mean_what_visgym_makes_of_them(name, payload):
    """VisGym: literal_eval, then Discrete(4) for move and one to four ASCII alphanumerics for stop."""
    text = repr((name, payload))
    read_name, read_payload = ast.literal_eval(text)
    visgym_accepts = (read_name == "move" and read_payload in range(4)) or (
        read_name == "stop"
        and isinstance(read_payload, str)
        and 1 <= len(read_payload) <= 4
        and read_payload.isalnum()
    )
    parsed = parse_answer(text)
    assert (parsed.action is not None) is visgym_accepts
    assert parsed.well_formed is visgym_accepts
    if isinstance(parsed.action, Move):
        assert parsed.action.direction.number == read_payload


def test_a_very_long_answer_is_read_from_its_end():
    parsed = parse_answer("('move', 0)" + "(" * (2 * MAX_ANSWER_CHARACTERS) + "('stop', 'stop')")
    assert parsed.action == Stop()


def test_canonical_text_of_every_action_is_well_formed():
    for action in ACTIONS:
        assert parse_answer(str(action)).action == action
        assert parse_answer(str(action)).well_formed
