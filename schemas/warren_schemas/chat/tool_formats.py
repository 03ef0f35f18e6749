"""How a policy writes calls of tools, and how it is told of them.

hermes   <tool_call>{"name": "add", "arguments": {"a": 1}}</tool_call>       Hermes, Qwen2.5, Qwen3
xml      <tool_call><function=add><parameter=a>1</parameter></function></tool_call>   Qwen3-Coder
code     a fenced block whose language names the tool

Only what is said aloud counts, not what stands in `<think>`. Invariant: whatever the words, parsing ends, in time
linear in their length, with calls or with a sentence that can be said to the policy.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from warren_schemas.chat.answer_text import spoken
from warren_schemas.config import ToolFormat

MAX_CALLS = 32
"""Most calls in one turn."""
MAX_CALL_CHARS = 65_536
"""Longest text of a call."""

_OPEN, _CLOSE = "<tool_call>", "</tool_call>"
_FUNCTION = re.compile(r"\s*<function=([^>\s]{1,128})>")
_PARAMETER = re.compile(r"\s*<parameter=([^>\s]{1,128})>\n?")
_FENCE = re.compile(r"^```([A-Za-z_][\w-]{0,63})[ \t]*\n", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Tool:
    """A tool as the policy is told of it."""

    name: str
    about: str | None
    parameters: dict[str, Any]
    """JSON schema of its arguments."""

    @property
    def schema(self) -> dict[str, Any]:
        """In the form that the chat APIs share."""
        about = " ".join((self.about or "").split())
        function = {"name": self.name, "description": about, "parameters": self.parameters}
        return {"type": "function", "function": function}


@dataclass(frozen=True, slots=True)
class Call:
    name: str
    arguments: dict[str, Any] = field(default_factory=dict[str, Any])
    text: str | None = None
    """Of a fenced block: the tool's one argument."""
    is_plain: bool = False
    """The arguments are texts, whatever type the tool expects."""


@dataclass(frozen=True, slots=True)
class NotACall:
    """The words hold something that was meant as a call; says what is wrong with it."""

    reason: str


class _Misfit(ValueError):
    """Text is for the policy."""


def parse_calls(words: str, form: ToolFormat) -> list[Call] | NotACall:
    """The calls in a policy's words, in their order; empty where there are none."""
    read = {ToolFormat.HERMES: _hermes, ToolFormat.XML: _xml, ToolFormat.CODE: _code}[form]
    calls: list[Call] = []
    try:
        for call in read(spoken(words)):
            if len(calls) == MAX_CALLS:
                return NotACall(f"more than {MAX_CALLS} calls in one turn")
            calls.append(call)
    except _Misfit as misfit:
        return NotACall(str(misfit))
    return calls


def _hermes(words: str) -> Iterator[Call]:
    at = words.find(_OPEN)
    while at >= 0:
        call, end = _json_call(words, at + len(_OPEN))
        yield call
        at = words.find(_OPEN, end)


def _json_call(words: str, start: int) -> tuple[Call, int]:
    """The call at `start` and where it ends: at the end of its object, whatever strings hold."""
    body = words[start : start + MAX_CALL_CHARS]
    n_blank = len(body) - len(body.lstrip())
    try:
        value, end = json.JSONDecoder().raw_decode(body, n_blank)
    except (ValueError, RecursionError) as error:
        raise _Misfit(_broken_json(body, error)) from error
    return _from_object(value), start + end


def _broken_json(body: str, error: Exception) -> str:
    if _CLOSE not in body:
        return f"the call was cut off: no {_CLOSE} follows {_OPEN}"
    what = getattr(error, "msg", "it is nested too deeply")
    return f"what stands in {_OPEN} is no JSON object: {what}"


def _from_object(value: object) -> Call:
    if not isinstance(value, dict):
        raise _Misfit('a call is a JSON object: {"name": …, "arguments": {…}}')
    fields = cast("dict[str, object]", value)
    name, arguments = fields.get("name"), fields.get("arguments", {})
    if not isinstance(name, str):
        raise _Misfit('the call lacks its "name"')
    if not isinstance(arguments, dict):
        raise _Misfit(f'"arguments" of {name} must be a JSON object')
    return Call(name, cast("dict[str, Any]", arguments))


def _xml(words: str) -> Iterator[Call]:
    at = words.find(_OPEN)
    while at >= 0:
        start = at + len(_OPEN)
        end = words.find(_CLOSE, start)
        if end < 0:
            raise _Misfit(f"the call was cut off: no {_CLOSE} follows {_OPEN}")
        yield _xml_call(words[start : min(end, start + MAX_CALL_CHARS)])
        at = words.find(_OPEN, end)


def _xml_call(body: str) -> Call:
    opened = _FUNCTION.match(body)
    if opened is None:
        raise _Misfit(f"a call begins with <function=NAME> inside {_OPEN}")
    arguments: dict[str, Any] = {}
    at = opened.end()
    while parameter := _PARAMETER.match(body, at):
        end = body.find("</parameter>", parameter.end())
        if end < 0:
            raise _Misfit(f"the parameter {parameter[1]} lacks its </parameter>")
        arguments[parameter[1]] = body[parameter.end() : end].removesuffix("\n")
        at = end + len("</parameter>")
    if body[at:].strip() != "</function>":
        raise _Misfit(f"the call of {opened[1]} lacks its </function>")
    return Call(opened[1], arguments, is_plain=True)


def _code(words: str) -> Iterator[Call]:
    at = 0
    while opened := _FENCE.search(words, at):
        end = words.find("\n```", opened.end() - 1)
        if end < 0:
            raise _Misfit("the fenced block was cut off: no ``` closes it")
        yield Call(opened[1], text=words[opened.end() : max(end, opened.end())])
        at = end + len("\n```")


def write_call(name: str, arguments: Mapping[str, Any], form: ToolFormat) -> str:
    """As a policy writes it. A fenced block holds the one argument, or all of several as JSON."""
    if form is ToolFormat.HERMES:
        call = {"name": name, "arguments": arguments}
        return f"{_OPEN}\n{_as_text(call)}\n{_CLOSE}"
    if form is ToolFormat.XML:
        told = [f"<parameter={key}>\n{_as_text(v)}\n</parameter>\n" for key, v in arguments.items()]
        return f"{_OPEN}\n<function={name}>\n{''.join(told)}</function>\n{_CLOSE}"
    text = next(iter(arguments.values())) if len(arguments) == 1 else arguments
    return f"```{name}\n{_as_text(text)}\n```"


def _as_text(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def tools_prompt(tools: Sequence[Tool], form: ToolFormat) -> str:
    """What the policy is told: which tools there are and how to call them."""
    listed = "\n".join(json.dumps(tool.schema, ensure_ascii=False) for tool in tools)
    return f"# Tools\n\nYou may call tools.\n\n<tools>\n{listed}\n</tools>\n\n{_HOW[form]}"


_HOW = {
    ToolFormat.HERMES: (
        "For each call, write a JSON object with its name and arguments inside of XML tags:\n"
        f'{_OPEN}\n{{"name": "NAME", "arguments": {{…}}}}\n{_CLOSE}'
    ),
    ToolFormat.XML: (
        "For each call, write:\n"
        f"{_OPEN}\n<function=NAME>\n<parameter=KEY>\nVALUE\n</parameter>\n</function>\n{_CLOSE}"
    ),
    ToolFormat.CODE: (
        "To call one, write a fenced block whose language is the name of the tool and whose text"
        " is its argument:\n```NAME\n…\n```"
    ),
}
