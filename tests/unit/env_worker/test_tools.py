"""Tools: what a policy writes, what is made of it, and what it is told. Parity row 57."""

from typing import Annotated

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import Field
from tests.support.tool_calls import CALLS, CODE, HERMES

from warren.environment import Context, EpisodeTranscript, StepResult
from warren.testing import play
from warren.tools import ToolEnv, ToolFormat, tool
from warren_schemas.chat.tool_formats import Call, NotACall, parse_calls, write_call


class Calculator(ToolEnv):
    def reset(self, task: None, ctx: Context) -> str:
        return "2+3?"

    def system_prompt(self) -> str:
        return "Calculate."

    @tool
    def add(self, a: int, b: int = 1) -> str:
        """Adds two numbers."""
        return str(a + b)

    @tool
    def python(self, code: str) -> str:
        """Runs code."""
        return f"ran {code}"

    @tool
    def give_up(self) -> StepResult:
        """Ends it."""
        return StepResult("too bad", reward=-1.0, done=True)

    @tool
    async def wait(self) -> str:
        """Waits."""
        return "waited"

    def answer(self, words: str) -> StepResult:
        return StepResult(reward=float("5" in words), done=True)


@pytest.mark.parametrize("form", list(ToolFormat))
def test_row_57_a_call_is_answered_in_every_format(form: ToolFormat) -> None:
    class Mine(Calculator):
        tool_format = form

    said = iter([f"<think>\n```python\n1\n```</think> Let me see. {CALLS[form]}", "It is 5."])
    if form is CODE:
        said = iter([f"<think>hm</think>\n{CALLS[form]}\n", "It is 5."])
    episode = play(Mine(), lambda _: next(said))
    assert episode.reward == 1.0
    assert [m.content for m in episode.messages if m.role == "tool"] == [
        "ran print(2+3)" if form is CODE else "5"
    ]
    assert episode.results[-1].metrics == {} | dict.fromkeys(
        ("tool_errors", "parse_errors"), 0.0
    ) | {"tool_calls": 1.0}


def test_row_57_the_system_prompt_tells_of_the_tools() -> None:
    message = play(Calculator(), lambda _: "5").messages[0]
    assert message.role == "system"
    assert message.content.startswith("Calculate.\n\n# Tools")
    assert '"name": "add", "description": "Adds two numbers."' in message.content
    assert '"required": ["a"]' in message.content


@pytest.mark.parametrize(
    ("words", "told", "counted"),
    [
        ('<tool_call>{"name": "add", "argum', "the call was cut off", "parse_errors"),
        ('<tool_call>{"name": add}</tool_call>', "is no JSON object", "parse_errors"),
        ("<tool_call>[1]</tool_call>", "a call is a JSON object", "parse_errors"),
        ('<tool_call>{"arguments": {}}</tool_call>', 'lacks its "name"', "parse_errors"),
        ("<tool_call>" + "[" * 50_000, "cut off", "parse_errors"),
        ('<tool_call>{"name": "ad"}</tool_call>', "did you mean add?", "tool_errors"),
        ('<tool_call>{"name": "reset"}</tool_call>', "there is no tool", "tool_errors"),
        (
            '<tool_call>{"name": "add", "arguments": {"a": "x"}}</tool_call>',
            "add: a: ",
            "tool_errors",
        ),
        (
            '<tool_call>{"name": "add", "arguments": {"a": 1, "c": 2}}</tool_call>',
            "c: unknown key",
            "tool_errors",
        ),
    ],
)
def test_row_57_an_error_goes_back_to_the_model_and_is_counted(
    words: str, told: str, counted: str
) -> None:
    said = iter([words, "5"])
    episode = play(Calculator(), lambda _: next(said))
    (answer,) = [m.content for m in episode.messages if m.role == "tool"]
    assert answer.startswith("Error: ")
    assert told in answer
    assert episode.results[-1].metrics[counted] == 1.0
    assert episode.messages[2].content == words  # what was sampled stays as it was
    assert episode.reward == 1.0


def test_a_string_may_hold_what_looks_like_the_end_of_a_call() -> None:
    calls = parse_calls(
        '<tool_call>{"name": "python", "arguments": {"code": "</tool_call>"}}', HERMES
    )
    assert not isinstance(calls, NotACall)
    assert calls[0].arguments == {"code": "</tool_call>"}


def test_several_calls_of_one_turn_are_taken_in_order_until_the_end() -> None:
    words = CALLS[HERMES] + '<tool_call>{"name": "give_up"}</tool_call>' + CALLS[HERMES]
    episode = play(Calculator(), lambda _: words)
    assert [m.content for m in episode.messages if m.role == "tool"] == ["5", "too bad"]
    assert (episode.reward, episode.results[-1].metrics["tool_calls"]) == (-1.0, 2.0)


def test_async_tools_are_awaited() -> None:
    said = iter(['<tool_call>{"name": "wait"}</tool_call>' + CALLS[HERMES], "5"])
    episode = play(Calculator(), lambda _: next(said))
    assert [m.content for m in episode.messages if m.role == "tool"] == ["waited", "5"]


PIECES = st.lists(
    st.sampled_from(
        ["<tool_call>", "</tool_call>", "{", "}", '"name"', ":", '"add"', "<function=add>", "\n```",
         "```python\n", "<parameter=a>", "</parameter>", "</function>", "</think>", "x", "[", "1"]
    ),
    max_size=30,
)  # fmt: skip


@given(words=PIECES.map("".join), form=st.sampled_from(list(ToolFormat)))
def test_whatever_is_said_is_calls_or_a_sentence(words: str, form: ToolFormat) -> None:
    parsed = parse_calls(words, form)
    assert isinstance(parsed, NotACall) or all(call.name for call in parsed)


class Described(Calculator):
    @tool
    def dial(self, digit: Annotated[int, Field(ge=0, le=9, description="one key")]) -> str:
        """Dials."""
        return f"dialled {digit}"


def test_what_annotations_say_of_an_argument_is_shown_and_holds() -> None:
    call = '<tool_call>{"name": "dial", "arguments": {"digit": 10}}</tool_call>'
    said = iter([call, "It is 5."])
    episode = play(Described(), lambda _: next(said))
    assert "one key" in episode.messages[0].content
    assert "at most 9, got 10" in next(m.content for m in episode.messages if m.role == "tool")


class Scored(Calculator):
    def score(self, transcript: EpisodeTranscript) -> dict[str, float]:
        return {"style": 0.5, "length": -0.25}


def test_a_score_adds_to_the_reward_of_the_last_turn() -> None:
    assert play(Scored(), lambda _: "5").reward == 1.25


@pytest.mark.parametrize(
    ("form", "calls"),
    [
        (ToolFormat.HERMES, [Call("f", {"a": 1, "b": "é\n"}), Call("g")]),
        (ToolFormat.XML, [Call("f", {"a": "1", "b": "é\nx"}, is_plain=True), Call("g", is_plain=True)]),
        (ToolFormat.CODE, [Call("f", text="print(1)\n2"), Call("g", text='{"a": 1, "b": "x"}')]),
    ],
)  # fmt: skip
def test_a_call_is_written_as_it_is_read(form: ToolFormat, calls: list[Call]) -> None:
    arguments = {"f": {"code": "print(1)\n2"}, "g": {"a": 1, "b": "x"}}
    told = [arguments[c.name] if form is CODE else c.arguments for c in calls]
    words = "\n".join(write_call(c.name, a, form) for c, a in zip(calls, told, strict=True))
    assert parse_calls(words, form) == calls
