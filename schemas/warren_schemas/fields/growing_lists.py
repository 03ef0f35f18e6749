"""Lists that grow by a few entries from message to message, such as what was said in an episode.

To read and write all of an episode's history at each hop would make a long episode cost the square of its turns.
So a list travels as texts of the message, one with what its last hop had already and one with what is new, and a
worker remembers what it sent: when it comes back longer, the old part is a look into a table, and the next hop
writes the new part alone. What is not remembered is read, validated and written whole.

Invariants: the bytes of an item follow from the item alone, not from what is remembered; the same text is the same
list; nobody changes an entry.
"""

from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, reduce
from operator import is_
from typing import Any, cast

import orjson
from pydantic import (
    BaseModel,
    GetCoreSchemaHandler,
    GetJsonSchemaHandler,
    TypeAdapter,
    ValidationError,
    ValidationInfo,
)
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, core_schema

from warren_schemas.fields.message_texts import TEXTS, text_at
from warren_schemas.fields.non_defaults import non_defaults

MAX_REMEMBERED = 2048
MAX_REMEMBERED_BYTES = 32 * 1024 * 1024

Entries = tuple[BaseModel, ...]
MAX_SHORT = 24
"""So many entries are as soon read and written anew as looked for: such a list stands in its item."""
_NONE = b"[]"
_MOST_NEW = 16
"""A list that has grown by more since it was sent is written whole."""


class _Sent:
    """Lists that were sent and may come back longer, with their texts. The oldest are forgotten."""

    def __init__(self) -> None:
        self._by_text: OrderedDict[bytes, Entries] = OrderedDict()
        self._texts: dict[int, bytes] = {}
        """By the identity of the last entry, which is kept alive here so that it stays its own."""
        self.size_bytes = 0

    def remember(self, entries: Entries, text: bytes) -> None:
        self.forget(text)
        self._by_text[text] = entries
        self._texts[id(entries[-1])] = text
        self.size_bytes += len(text)
        while len(self._by_text) > MAX_REMEMBERED or self.size_bytes > MAX_REMEMBERED_BYTES:
            self.forget(next(iter(self._by_text)))

    def forget(self, text: bytes) -> None:
        entries = self._by_text.pop(text, None)
        if entries is not None:
            self.size_bytes -= len(text)
            self._texts.pop(id(entries[-1]), None)

    def entries_of(self, text: bytes) -> Entries | None:
        return self._by_text.get(text)

    def longest_beginning(self, entries: Entries, n: int) -> tuple[int, bytes]:
        """How many of the first `n` entries were sent as a list, and its text."""
        for length in range(n, max(0, n - _MOST_NEW), -1):
            text = self._texts.get(id(entries[length - 1]))
            if text is not None and _are_same(self._by_text[text], entries[:length]):
                return length, text
        return 0, _NONE


def _are_same(ours: Entries, theirs: Entries) -> bool:
    """By identity: of entries that are equal, such as those with rewards of 0 and -0, the texts may differ."""
    return len(ours) == len(theirs) and all(map(is_, ours, theirs))


_sent = _Sent()


def n_remembered_bytes() -> int:
    """Of texts, by this process."""
    return _sent.size_bytes


@dataclass(frozen=True)
class GrowsInMessages:
    """Marks a tuple of models that is sent again and again, a little longer each time."""

    n_old: Callable[[Any], int]
    """How many entries the next to take the item has sent or seen already, by what the item says."""

    def texts(self, model: object, entries: Entries, *, comes_back: bool) -> list[bytes]:
        """The list as JSON, in one text or in an old and a new one. Where it `comes_back` it is remembered."""
        n_old = self.n_old(model)
        length, beginning = _sent.longest_beginning(entries, n_old)
        old = joined(beginning, _json(entries[length:n_old]))
        new = _json(entries[n_old:])
        if length:
            _sent.forget(beginning)
        if comes_back:
            _sent.remember(entries, joined(old, new))
        return [text for text in (old, new) if text != _NONE]

    def __get_pydantic_core_schema__(
        self, source: Any, handler: GetCoreSchemaHandler
    ) -> CoreSchema:
        def entries_in(value: dict[str, list[int]], info: ValidationInfo) -> Entries:
            return _read(source, [text_at(number, info) for number in value[TEXTS]])

        whole = handler(source)
        numbers = core_schema.list_schema(core_schema.int_schema(strict=True, ge=0))
        in_texts = core_schema.typed_dict_schema(
            {TEXTS: core_schema.typed_dict_field(numbers)}, extra_behavior="forbid"
        )
        read = core_schema.with_info_after_validator_function(entries_in, in_texts)
        either = core_schema.union_schema(
            [(whole, "[whole]"), (read, "[texts]")], mode="left_to_right"
        )
        return core_schema.json_or_python_schema(json_schema=either, python_schema=whole)

    def __get_pydantic_json_schema__(
        self, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        """That of the list: texts are an affair of the wire."""
        return handler(cast("core_schema.JsonOrPythonSchema", schema)["python_schema"])


@cache
def growing_fields(kind: type[object]) -> list[tuple[str, GrowsInMessages]]:
    """The fields of a model that are lists which grow."""
    if not issubclass(kind, BaseModel):
        return []
    return [
        (name, mark)
        for name, info in kind.model_fields.items()
        for mark in info.metadata
        if isinstance(mark, GrowsInMessages)
    ]


def joined(first: bytes, second: bytes) -> bytes:
    """The text of both lists, one after the other."""
    if first == _NONE:
        return second
    return first if second == _NONE else b"%b,%b" % (first[:-1], second[1:])


def _json(entries: Entries) -> bytes:
    return orjson.dumps(entries, default=non_defaults) if entries else _NONE


def _read(source: Any, texts: Sequence[bytes]) -> Entries:
    """Raises `ValidationError`, whose places are those in the whole list."""
    entries: Entries = ()
    try:
        for text in texts:
            entries += _sent.entries_of(text) or _validated(source, text)
    except ValidationError:
        return _validated(source, reduce(joined, texts))
    return entries


def _validated(source: Any, text: bytes) -> Entries:
    return _reader(source).validate_json(text, strict=True)


@cache
def _reader(source: Any) -> Any:
    return TypeAdapter(source).validator
