"""Actions of Gymnasium's spaces, from texts."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from warren_env_worker.environments.gymnasium.spaces import Choice, Numbers, Words
from warren_env_worker.environments.text.environment import NoAction

WAYS = Choice(kind="choice", names=("left", "Right", "3"))
FORCE = Numbers(kind="numbers", low=(-0.1, None), high=(2.0, None), is_whole=False)
BITS = Numbers(kind="numbers", low=(0.0,) * 3, high=(1.0,) * 3, is_whole=True)
LETTERS = Words(kind="words", shortest=1, longest=3, characters="ab ")


def test_a_choice_by_name_or_number() -> None:
    said = {" LEFT. ": 0, "`right`": 1, "1": 1, "01": 1, "0": 0, "3": 2}
    assert {words: WAYS.read(words) for words in said} == said
    for words in ("", "up", "4", "-1", "left right", "1" * 5000):
        with pytest.raises(NoAction, match="Say one of: left, Right, 3"):
            WAYS.read(words)


def test_numbers_in_their_ranges() -> None:
    for words in ("[0.5, -1e3]", "0.5 -1000", "`0.5;-1000.0`", "[[0.5], [-1000]]"):
        assert FORCE.read(words) == [0.5, -1000.0]
    assert FORCE.read("-0.1 2") == [-0.1, 2.0]
    assert BITS.read("1, 0, 1") == [1, 0, 1]


@pytest.mark.parametrize(
    ("space", "words", "reason"),
    [
        (FORCE, "", "That is no action. An action is 2 numbers"),
        (FORCE, "0.5", "That is no action"),
        (FORCE, "1 2 3", "That is no action"),
        (FORCE, "nan 1", "That is no action"),
        (FORCE, "inf 1", "That is no action"),
        (FORCE, "true 1", "That is no action"),
        (FORCE, "0x1 1", "That is no action"),
        (FORCE, "--1 1", "That is no action"),
        (FORCE, "1 1e999", "That is out of range"),
        (FORCE, "2.01 1", "That is out of range"),
        (FORCE, "-0.2 1", "That is out of range"),
        (BITS, "1 0 2", "That is out of range"),
        (BITS, "1 0 0.5", "That is out of range"),
        (LETTERS, "abba", "That is no action. An action is a text of 1 to 3"),
        (LETTERS, "c", "That is no action"),
        (LETTERS, "", "That is no action"),
    ],
)
def test_what_is_no_action_is_told(space: Numbers | Words, words: str, reason: str) -> None:
    with pytest.raises(NoAction) as told:
        space.read(words)
    assert str(told.value).startswith(reason)


@given(st.lists(st.floats(-5, 5, width=32), min_size=1, max_size=6), st.booleans())
def test_numbers_that_are_written_are_read(values: list[float], is_json: bool) -> None:
    bounds = (-5.0,) * len(values), (5.0,) * len(values)
    space = Numbers(kind="numbers", low=bounds[0], high=bounds[1], is_whole=False)
    assert space.read(json.dumps(values) if is_json else " ".join(map(str, values))) == values


@given(st.text("0123456789+-.eE[](), \nax", max_size=40))
def test_what_is_read_lies_in_the_space(words: str) -> None:
    for space in (FORCE, BITS):
        try:
            values = space.read(words)
        except NoAction:
            continue
        assert len(values) == len(space.low)
        for value, low, high in zip(values, space.low, space.high, strict=True):
            assert (low is None or value >= low) and (high is None or value <= high)
            assert value.is_integer() or not space.is_whole


def test_the_policy_is_told_what_an_action_is() -> None:
    one = Numbers(kind="numbers", low=(-2.0,), high=(2.0,), is_whole=False)
    die = Numbers(kind="numbers", low=(1.0, 1.0), high=(6.0, 3.0), is_whole=True)
    free = Numbers(kind="numbers", low=(None,), high=(None,), is_whole=False)
    assert [space.told() for space in (WAYS, one, BITS, die, FORCE, free, LETTERS)] == [
        "Actions: left, Right, 3.",
        "An action is a number from -2 to 2.",
        "An action is 3 whole numbers, separated by commas, each from 0 to 1.",
        "An action is 2 whole numbers, separated by commas: from 1 to 6, from 1 to 3.",
        "An action is 2 numbers, separated by commas: from -0.1 to 2, any.",
        "An action is a number.",
        "An action is a text of 1 to 3 characters, of these: ab ",
    ]
    assert [space.blank() for space in (WAYS, one, BITS, LETTERS)] == [
        "NAME", "NUMBER", "NUMBERS", "TEXT",
    ]  # fmt: skip
    many = Numbers(
        kind="numbers", low=tuple(map(float, range(99))), high=(99.0,) * 99, is_whole=False
    )
    assert many.told().endswith(" from 31 to 99 ….")
