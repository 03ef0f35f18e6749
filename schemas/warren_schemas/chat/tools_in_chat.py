"""Tools as APIs tell of them, in chats as a policy meets them: in the system message and in its words.

They are told and called by `tool_formats` (`hermes`), as in training with a `ToolEnv`, so that a policy that
learned tools here meets what it knows.
"""

import json
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from warren_schemas.chat.tool_formats import Call, NotACall, Tool, parse_calls, tools_prompt
from warren_schemas.config import ToolFormat
from warren_schemas.transcript import ChatMessage

_CALL, _END_OF_THOUGHT = "<tool_call>", "</think>"


@dataclass(frozen=True, slots=True)
class Called:
    """A call of a tool."""

    name: str
    arguments: str
    """A JSON object as text."""


@dataclass(frozen=True, slots=True)
class Spoken:
    """What a policy said, as APIs tell it."""

    text: str | None
    """None where it only called tools."""
    calls: tuple[Called, ...] = ()


def spoken_in(words: str, tools: Collection[str]) -> Spoken:
    """Calls are told as such where all of them are of tools that were offered; else as words."""
    calls = parse_calls(words, ToolFormat.HERMES) if tools else []
    if not calls or isinstance(calls, NotACall) or any(c.name not in tools for c in calls):
        return Spoken(words)
    try:
        called = tuple(map(_called, calls))
    except ValueError:  # what Python reads as JSON and others don't, such as NaN
        return Spoken(words)
    return Spoken(_before_calls(words) or None, called)


def as_words(text: str, calls: Sequence[Called]) -> str:
    """The same as a policy writes it."""
    return "\n".join(part for part in (text, *map(_written, calls)) if part)


def with_tools(messages: Sequence[ChatMessage], tools: Sequence[Tool]) -> list[ChatMessage]:
    """The chat with the tools at the end of its system message."""
    if not tools:
        return list(messages)
    told = tools_prompt(tools, ToolFormat.HERMES)
    if messages[0].role != "system":
        return [ChatMessage(role="system", content=told), *messages]
    system = f"{messages[0].content}\n\n{told}"
    return [ChatMessage(role="system", content=system), *messages[1:]]


def _written(call: Called) -> str:
    return f'<tool_call>\n{{"name": "{call.name}", "arguments": {call.arguments}}}\n</tool_call>'


def _called(call: Call) -> Called:
    return Called(call.name, json.dumps(call.arguments, allow_nan=False))


def _before_calls(words: str) -> str:
    spoken_from = words.rfind(_END_OF_THOUGHT) + 1
    return words[: words.find(_CALL, spoken_from)].rstrip()
