r"""Calls of the tool `python` in a model's words.

Three forms: JSON (Hermes, Qwen), XML (Qwen3-Coder), and a fenced block. Only what follows the last
`</think>` counts. What was meant as a call and can't be read as one is told to the model, in words.
"""

import json
import re
from dataclasses import dataclass
from enum import StrEnum
from typing import cast

MAX_CALL_CHARS = 65_536

_OPENING = re.compile(r"<tool_call>\s*")
_FUNCTION = re.compile(r"<function=([^>\s]{1,100})>")
_PARAMETER = re.compile(r"<parameter=code>\n?(.*?)\n?</parameter>", re.DOTALL)
_FENCE = re.compile(r"^```(?:python|py)[ \t]*\n(.*?)^```", re.DOTALL | re.MULTILINE)


class CallForm(StrEnum):
    JSON = "json"
    XML = "xml"
    FENCE = "fence"


@dataclass(frozen=True, slots=True)
class Call:
    code: str


@dataclass(frozen=True, slots=True)
class Misformed:
    """Meant as a call, and none."""

    reason: str


def find_call(text: str, form: CallForm) -> Call | Misformed | None:
    """The first call; None for words without one."""
    said = text.rpartition("</think>")[2]
    if form is CallForm.FENCE:
        fenced = _FENCE.search(said)
        return Call(fenced.group(1)) if fenced else None
    opening = _OPENING.search(said)
    if opening is None:
        return None
    body = said[opening.end() : opening.end() + MAX_CALL_CHARS]
    return _from_json(body) if body.startswith("{") else _from_xml(body)


def _from_json(body: str) -> Call | Misformed:
    """The object ends where it ends: a `</tool_call>` within its texts does not matter."""
    try:
        call, _ = json.JSONDecoder(strict=False).raw_decode(body)
    except (ValueError, RecursionError) as error:
        return Misformed(f"The call is no valid JSON: {str(error)[:200]}.")
    fields = cast("dict[str, object]", call)
    arguments = fields.get("arguments")
    code = cast("dict[str, object]", arguments).get("code") if isinstance(arguments, dict) else None
    return _checked(fields.get("name"), code)


def _from_xml(body: str) -> Call | Misformed:
    function = _FUNCTION.match(body)
    if function is None:
        return Misformed("A call must hold a JSON object or <function=…>.")
    parameter = _PARAMETER.search(body)
    return _checked(function.group(1), parameter.group(1) if parameter else None)


def _checked(name: object, code: object) -> Call | Misformed:
    if name != "python":
        return Misformed(f"There is no tool {str(name)[:50]!r}; the only one is python.")
    if not isinstance(code, str):
        return Misformed("The tool python needs the argument code, a text.")
    return Call(code)
