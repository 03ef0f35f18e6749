"""Typed actions: what is read from a policy's words, and what becomes of those that can't be read."""

from dataclasses import dataclass
from enum import IntEnum, StrEnum
from typing import Generic, Literal, TypeVar

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from warren.actions import ActionEnv
from warren.actions.environment import has_async_actions
from warren.actions.reader import ActionReader, Read, Unreadable
from warren.environment import Context, StepResult
from warren.testing import play


class Move(BaseModel):
    row: int
    column: int = 0


class Color(StrEnum):
    RED = "red"
    BLUE = "blue"


class Choice(IntEnum):
    ONE = 1
    TWO = 2


@dataclass
class Bid:
    amount: float


class Board(ActionEnv[Move]):
    def reset(self, task: None, ctx: Context) -> str:
        return "Your move."

    def system_prompt(self) -> str | None:
        return "Play."

    def act(self, action: Move) -> StepResult:
        return StepResult("next", reward=float(action.row), done=action.row == action.column)


@pytest.mark.parametrize(
    ("action_type", "words", "action"),
    [
        (Move, '{"row": 1}', Move(row=1)),
        (Move, 'I think so: {"row": 1, "column": 2}. Yes.', Move(row=1, column=2)),
        (Move, '```json\n{"row": 1}\n```\nor\n```\n{"row": 2}\n```', Move(row=2)),
        (Move, '<think>{"row": 1}</think>{"row": 3}', Move(row=3)),
        (Bid, '{"amount": 2}', Bid(2.0)),
        (Move | Bid, '{"amount": 2}', Bid(2.0)),
        (list[int], "[1, 2]", [1, 2]),
        (Literal["up", "down"], " up\n", "up"),
        (Literal[1, 2], "2", 2),
        (Color, "blue", Color.BLUE),
        (int, "-3", -3),
        (str, "hello there", "hello there"),
        (bool, "true", True),
    ],
)
def test_words_are_read_as_a_value_of_the_type(
    action_type: type[object], words: str, action: object
) -> None:
    reader = ActionReader(action_type)
    assert reader.read(words) == Read(action)
    assert reader.read(reader.written(action)) == Read(action)


@pytest.mark.parametrize(
    ("action_type", "words", "reason"),
    [
        (Move, "row 1", "there is no JSON in it"),
        (Move, "", "there is no JSON in it"),
        (Move, '<think>{"row": 1}', "there is no JSON in it"),
        (Move, '{"row": 1', "Invalid JSON: EOF while parsing an object at line 1 column 9"),
        (Move, '{"row": "x"}', "row: expected a whole number, got 'x'"),
        (Move, "[1]", "expected keys and values, got a list"),
        (Literal["up", "down"], "upp", "expected 'up' or 'down', got 'upp'; did you mean up?"),
        (Literal[1, 2], "3", "expected 1 or 2, got '3'"),
        (int, "three", "expected a whole number, got 'three'"),
    ],
)
def test_what_can_not_be_read_is_told(action_type: type[object], words: str, reason: str) -> None:
    assert ActionReader(action_type).read(words) == Unreadable(reason)


@given(st.text() | st.text(alphabet='{}[]":,1 \n`'))
def test_any_words_are_read_or_told(words: str) -> None:
    for action_type in (Move, Color, int, list[int]):
        assert isinstance(ActionReader(action_type).read(words), Read | Unreadable)


@pytest.mark.parametrize("words", ["{" * 100_000, "[" * 100_000, '{"row":' * 10_000])
def test_nested_words_are_told_as_well(words: str) -> None:
    assert isinstance(ActionReader(Move).read(words), Unreadable)


def test_a_pattern_has_the_fields_as_groups_and_its_last_match_counts() -> None:
    reader = ActionReader(Move, r"(?P<row>\d+),(?P<column>\d+)?")
    assert reader.read("1,2 no: 3,") == Read(Move(row=3))
    assert reader.read("one, two") == Unreadable("what was asked for is not there")
    assert ActionReader(int, r"take (\d+)").read("take 1, no, take 2") == Read(2)
    assert ActionReader(Choice, r"\d+").read("I take 2!") == Read(Choice.TWO)
    with pytest.raises(TypeError, match="can't be written automatically"):
        reader.written(Move(row=1))
    with pytest.raises(TypeError, match="no named groups"):
        ActionReader(Move, r"(\d+)")


def test_a_named_group_of_a_plain_value_is_no_field() -> None:
    assert ActionReader(int, r"take (?P<n>\d+)").read("take 1, no, take 2") == Read(2)
    assert ActionReader(Color, r"(?P<color>red|blue)!").read("blue!") == Read(Color.BLUE)
    either = ActionReader(int, r"(?P<n>\d+)|none")
    assert isinstance(either.read("none"), Unreadable)


def test_the_policy_is_told_the_form() -> None:
    assert ActionReader(Color).told() == "Answer with nothing but one of: red, blue."
    assert ActionReader(Move, "(?P<row>.)").told() is None
    system = play(Board(), lambda _: '{"row": 0}').messages[0].content
    assert system.startswith("Play.\n\nAnswer with nothing but JSON that fits this JSON schema:\n{")
    assert '"required": ["row"]' in system


def test_an_environment_gets_actions_and_counts_what_is_none() -> None:
    said = iter(['{"row": 1}', "left", '{"row": 2, "column": 2}'])
    episode = play(Board(), lambda _: next(said))
    assert [result.reward for result in episode.results] == [1.0, 0.0, 2.0]
    told = "That can't be read as an action: there is no JSON in it"
    assert episode.messages[5].content == told
    assert [result.metrics["unreadable"] for result in episode.results] == [0.0, 1 / 2, 1 / 3]


def test_too_many_words_that_can_not_be_read_end_the_episode() -> None:
    class Strict(Board):
        max_unreadable = 0
        unreadable_reward = -1.0

    (result,) = play(Strict(), lambda _: "left").results
    assert result == StepResult(reward=-1.0, done=True, metrics={"unreadable": 1.0})
    results = play(Board(), lambda _: "left").results
    assert [result.done for result in results] == [False] * Board.max_unreadable + [True]


def test_a_class_may_say_itself_what_follows() -> None:
    class Lenient(Board):
        tells_form = False

        def unreadable(self, words: str, reason: str) -> StepResult:
            return StepResult(reward=0.5, done=True, metrics={"unreadable": 0.0})

    episode = play(Lenient(), lambda _: "left")
    assert (episode.reward, episode.messages[0].content) == (0.5, "Play.")
    assert episode.results[0].metrics == {"unreadable": 0.0}


def test_it_may_be_async_and_have_tasks() -> None:
    class Later(ActionEnv[Color, str]):
        def tasks(self, split: str) -> list[str]:
            return ["red"]

        def reset(self, task: str, ctx: Context) -> str:
            self.right = task
            return "Which one?"

        async def act(self, action: Color) -> StepResult:
            return StepResult(reward=float(action == self.right), done=True)

    assert play(Later(), lambda _: "red").reward == 1.0
    assert has_async_actions(Later)
    assert not has_async_actions(Board)


def test_a_class_without_a_type_is_told_so() -> None:
    class Nothing(ActionEnv):  # pyright: ignore[reportMissingTypeArgument]
        def reset(self, task: None, ctx: Context) -> str:
            return "?"

        def act(self, action: object) -> StepResult:
            return StepResult(done=True)

    with pytest.raises(
        TypeError, match=r"Nothing does not say what an action is: ActionEnv\[Move\]"
    ):
        play(Nothing(), lambda _: "x")


MoveT = TypeVar("MoveT")
RowT = TypeVar("RowT")
SizeT = TypeVar("SizeT")


class Game(ActionEnv[MoveT, RowT], Generic[RowT, SizeT, MoveT]):
    """What its actions are a subclass says."""

    def reset(self, task: RowT, ctx: Context) -> str:
        return "Your turn."

    def act(self, action: MoveT) -> StepResult:
        return StepResult(reward=float(action == 1), done=True)


class Count(Game[None, str, int]):
    pass


class Sized(Game[None, SizeT, Move]):
    """Not all of it is open."""


class Listed(ActionEnv[list[MoveT], None]):
    def reset(self, task: None, ctx: Context) -> str:
        return "?"

    def act(self, action: list[MoveT]) -> StepResult:
        return StepResult(reward=float(len(action)), done=True)


class Counts(Listed[int]):
    pass


class Own(Game[None, str, str]):
    action_type = Literal["up", "down"]


def test_a_class_between_may_leave_the_type_to_others() -> None:
    class Small(Sized[str]):
        pass

    types = [each.action_type for each in (Game, Count, Sized, Small, Listed, Counts)]
    assert types == [None, int, Move, Move, None, list[int]]
    assert Own.action_type == Literal["up", "down"], "it is set"
    assert play(Counts(), lambda _: "[1, 2]").reward == 2.0
    assert play(Count(), lambda _: "1").reward == 1.0
