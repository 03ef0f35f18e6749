"""What was said in a trace, for people: its `request` and `response` are chat completions.

Nothing is trained on words, so a trace without them, or with others than these, is taken; each turn has a message for all that.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import cast

import orjson

from warren_schemas.exports.rows import Row
from warren_schemas.traces.shape import TrainingTurn

_Object = Mapping[str, object]
_ROLES = {"system": "system", "developer": "system", "assistant": "assistant", "tool": "tool"}


def conversation_messages(turns: Sequence[TrainingTurn], numbers: Sequence[int]) -> list[Row]:
    """As an export has them; `numbers`: the conversation of each turn.

    What the policy is shown as its own words is quoted: each turn said its own answer alone.
    """
    said: dict[int, list[Row]] = defaultdict(list)
    for turn, number in zip(turns, numbers, strict=True):
        shown = _objects(turn.request.get("messages"))[len(said[number]) :]
        said[number] += [_message(each, number, is_quoted=True) for each in shown]
        answer = {"role": "assistant", **_object(_choice(turn).get("message"))}
        said[number].append(_message(answer, number, is_quoted=False) | {"role": "assistant"})
    return [message for number in sorted(said) for message in said[number]]


def is_cut(turn: TrainingTurn) -> bool:
    return _choice(turn).get("finish_reason") == "length"


def _choice(turn: TrainingTurn) -> _Object:
    found = _objects(turn.response.get("choices"))
    return found[0] if found else {}


def _message(message: _Object, number: int, *, is_quoted: bool) -> Row:
    role = _ROLES.get(str(message.get("role")), "user")
    return {
        "role": role,
        "content": _content(message),
        "is_quoted": is_quoted and role == "assistant",
        "branch": number,
    }


def _content(message: _Object) -> str:
    content, calls = message.get("content"), message.get("tool_calls")
    said = content if isinstance(content, str) else "\n".join(map(_part, _objects(content)))
    return "\n".join(filter(None, [said, orjson.dumps(calls).decode() if calls else ""]))


def _part(part: _Object) -> str:
    text = part.get("text")
    return text if isinstance(text, str) else orjson.dumps(part).decode()


def _objects(value: object) -> list[_Object]:
    found = cast("list[object]", value) if isinstance(value, list) else []
    return [_object(each) for each in found]


def _object(value: object) -> _Object:
    return cast("_Object", value) if isinstance(value, dict) else {}
