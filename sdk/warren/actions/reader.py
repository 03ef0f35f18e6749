"""From a policy's words to a value of a type.

json     the type has fields (a model, a dataclass, a union of them …): one JSON value, in a fenced block or bare
plain    the type is a text, a number or a choice (`Literal`, an enum): the words themselves
pattern  a regular expression; its named groups are the fields of a type that has any, and a plain value is what its
         first group matches, or all of it

Only what is said aloud counts, not what stands in `<think>`. Invariant: whatever the words, reading ends with a value
of the type or with a sentence that can be said to the policy. JSON is looked for in time linear in their length.
"""

import json
import re
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from pydantic import TypeAdapter, ValidationError

from warren_schemas.chat.answer_text import spoken
from warren_schemas.text.explain import explain

ActionT = TypeVar("ActionT")

_PLAIN = frozenset({"string", "integer", "number", "boolean"})
_FENCE = re.compile(r"^```[\w-]*[ \t]*\n(.*?)^```", re.MULTILINE | re.DOTALL)
_PAIRS = (("{", "}"), ("[", "]"))


@dataclass(frozen=True, slots=True)
class Read(Generic[ActionT]):
    action: ActionT


@dataclass(frozen=True, slots=True)
class Unreadable:
    reason: str
    """For the policy."""


class ActionReader(Generic[ActionT]):
    def __init__(self, action_type: type[ActionT], pattern: str | None = None) -> None:
        """Raises `TypeError` for a type, or a pattern for it, by which nothing could be read."""
        self._adapter: TypeAdapter[ActionT] = TypeAdapter(action_type)
        self._schema = self._adapter.json_schema()
        self._is_plain = _is_plain(self._schema, self._schema)
        self._choices = {_written(value): value for value in _choices(self._schema)}
        self._pattern = None if pattern is None else re.compile(pattern)
        if self._pattern is not None and not (self._is_plain or self._pattern.groupindex):
            raise TypeError(
                f"the pattern {pattern!r} has no named groups; name one for each field, as in (?P<row>…)"
            )

    def read(self, words: str) -> Read[ActionT] | Unreadable:
        said = spoken(words).strip()
        try:
            if self._pattern is not None:
                return self._matched(said, self._pattern)
            return Read(self._plain(said)) if self._is_plain else self._from_json(said)
        except ValidationError as error:
            return Unreadable("; ".join(explain(error)))

    def told(self) -> str | None:
        """What the policy is told of the form; None where only the author can say it."""
        if self._pattern is not None:
            return None
        if self._choices:
            return f"Answer with nothing but one of: {', '.join(self._choices)}."
        schema = json.dumps(self._schema, ensure_ascii=False)
        how = "a value" if self._is_plain else "JSON"
        return f"Answer with nothing but {how} that fits this JSON schema:\n{schema}"

    def written(self, action: ActionT) -> str:
        """Words that are read as this action. Raises `TypeError` where a pattern says how they look."""
        if self._pattern is not None:
            raise TypeError(
                "an action that a pattern reads can't be written automatically; write the text yourself"
            )
        if not self._is_plain:
            return self._adapter.dump_json(action).decode()
        return _written(self._adapter.dump_python(action, mode="json"))

    def _plain(self, said: str) -> ActionT:
        if said in self._choices:
            return self._adapter.validate_python(self._choices[said])
        return self._adapter.validate_strings(said)

    def _matched(self, said: str, pattern: re.Pattern[str]) -> Read[ActionT] | Unreadable:
        """By the last match: who says "A, no, B" has said B."""
        matches = deque(pattern.finditer(said), maxlen=1)
        if not matches:
            return Unreadable("what was asked for is not there")
        last = matches[0]
        if self._is_plain:
            return Read(self._plain(last[1] if pattern.groups else last[0]))
        groups = {name: text for name, text in last.groupdict().items() if text is not None}
        return Read(self._adapter.validate_strings(groups))

    def _from_json(self, said: str) -> Read[ActionT] | Unreadable:
        text = _json_in(said)
        if text is None:
            return Unreadable("there is no JSON in it")
        return Read(self._adapter.validate_json(text))


def _json_in(said: str) -> str | None:
    """What the last fenced block holds, or else what stands from the first brace or bracket to its last fellow."""
    fenced = _FENCE.findall(said)
    text = fenced[-1] if fenced else said
    begins = [(at, closing) for opening, closing in _PAIRS if (at := text.find(opening)) >= 0]
    if not begins:
        return None
    start, closing = min(begins)
    end = text.rfind(closing) + 1
    return text[start:end] if end > start else text[start:]


def _is_plain(schema: Mapping[str, Any], root: Mapping[str, Any]) -> bool:
    if reference := schema.get("$ref"):
        return _is_plain(root["$defs"][str(reference).rpartition("/")[2]], root)
    if alternatives := schema.get("anyOf"):
        return all(_is_plain(each, root) for each in alternatives)
    return "enum" in schema or "const" in schema or schema.get("type") in _PLAIN


def _choices(schema: Mapping[str, Any]) -> list[object]:
    return schema.get("enum") or ([schema["const"]] if "const" in schema else [])


def _written(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value)
