"""Tools that a server offers: how the policy is told of them, and what its words call.

Invariant: whatever the words, each call is one that can be sent, or a sentence that is said to the policy. What it
sampled is never rewritten.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import orjson
from pydantic import BaseModel, ConfigDict

from warren_schemas.chat.tool_formats import Call, NotACall, Tool, parse_calls, tools_prompt
from warren_schemas.config import ToolFormat
from warren_schemas.text.explain import nearest

_NO_ARGUMENTS: dict[str, Any] = {"type": "object", "properties": {}}


class ToolSpec(BaseModel):
    """A tool as servers tell of it; keys that we don't know are passed over."""

    model_config = ConfigDict(extra="ignore", frozen=True, populate_by_name=True)

    name: str
    description: str | None = None
    input_schema: dict[str, Any] | None = None
    """JSON schema of its arguments."""


@dataclass(frozen=True, slots=True)
class ReadCall:
    name: str
    arguments: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Misfit:
    """What was meant as a call and can't be made; `reason` is said to the policy."""

    reason: str
    tried: ReadCall | None = None
    """A call of a tool that there is not."""


class ToolCalls:
    """Of one episode. `counts` are its metrics."""

    def __init__(self, form: ToolFormat, tools: Sequence[ToolSpec] = ()) -> None:
        self.form = form
        self.tools = {tool.name: tool for tool in tools}
        self.counts = {"tool_calls": 0.0, "tool_errors": 0.0, "parse_errors": 0.0}

    def system_prompt(self, preface: str | None) -> str | None:
        told = [as_told(spec) for spec in self.tools.values()]
        parts = [preface, tools_prompt(told, self.form) if told else None]
        return "\n\n".join(part for part in parts if part) or None

    def read(self, words: str) -> list[ReadCall | Misfit]:
        """The calls in their order; empty where the words have none."""
        calls = parse_calls(words, self.form)
        if isinstance(calls, NotACall):
            self.counts["parse_errors"] += 1
            return [Misfit(calls.reason)]
        return [self._read(call) for call in calls]

    def count(self, *, is_refused: bool) -> None:
        """A call that was answered."""
        self.counts["tool_errors" if is_refused else "tool_calls"] += 1

    def sendable(self, name: str, arguments: dict[str, Any]) -> ReadCall | Misfit:
        call = ReadCall(name, arguments)
        error = _unsendable(call)
        return call if error is None else self._misfit(f"{name}: {error}")

    def _read(self, call: Call) -> ReadCall | Misfit:
        spec = self.tools.get(call.name)
        if spec is not None:
            return self.sendable(call.name, arguments_of(call, spec))
        tried = ReadCall(call.name, call.arguments)
        reason = _unknown(call.name, list(self.tools))
        return self._misfit(reason, tried if _unsendable(tried) is None else None)

    def _misfit(self, reason: str, tried: ReadCall | None = None) -> Misfit:
        self.count(is_refused=True)
        return Misfit(reason, tried)


def _unsendable(call: ReadCall) -> str | None:
    """Why it can't be sent: half a character, beyond 64 bits."""
    try:
        orjson.dumps({call.name: call.arguments})
    except (TypeError, RecursionError) as error:
        return str(error)
    return None


def as_told(spec: ToolSpec) -> Tool:
    schema = spec.input_schema or _NO_ARGUMENTS
    parameters = {key: value for key, value in schema.items() if key != "title"}
    return Tool(spec.name, spec.description, parameters)


def arguments_of(call: Call, spec: ToolSpec) -> dict[str, Any]:
    """What the policy wrote, in the types that the tool expects."""
    properties = _properties(spec)
    if call.text is not None:  # a fenced block is the first argument
        return {next(iter(properties), "text"): call.text}
    if call.is_plain:
        return {name: _typed(text, properties.get(name)) for name, text in call.arguments.items()}
    return call.arguments


def _unknown(name: str, names: list[str]) -> str:
    match = nearest(name, names)
    return f"there is no tool {name!r}; " + (
        f"did you mean {match}?" if match else f"there are: {', '.join(names)}"
    )


def _properties(spec: ToolSpec) -> Mapping[str, object]:
    found: object = (spec.input_schema or {}).get("properties")
    return cast("Mapping[str, object]", found) if isinstance(found, dict) else {}


def _typed(text: str, schema: object) -> object:
    """A parameter that was written as plain text, read as JSON unless the tool takes a text."""
    if isinstance(schema, dict) and cast("dict[str, object]", schema).get("type") == "string":
        return text
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text
