"""The wire codec: items to messages and back (`frame` has the layout of the bytes).

Decoding validates everything: lengths of the frame and of aligned arrays, dtypes, ranges,
finiteness, types without coercion, unknown keys. Items are independent: a bad one is reported by
itself, with item and field, and its neighbours are still delivered. Nothing but `WireError` leaves
`decode`, whatever the bytes.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from types import GenericAlias
from typing import TypeGuard, cast

import orjson
from pydantic import BaseModel, TypeAdapter, ValidationError

from warren_schemas import control, episode, events, group_scoring, training
from warren_schemas.codec.columns import ColumnWriter
from warren_schemas.codec.frame import SPEC, Frame, Kind, WireError, read, write
from warren_schemas.envelope import Item
from warren_schemas.episode import EpisodeSpec, Generate, Step
from warren_schemas.fields.apart import apart_of
from warren_schemas.fields.growing_lists import MAX_SHORT
from warren_schemas.fields.message_texts import TEXTS
from warren_schemas.fields.one_span import AlignedColumns
from warren_schemas.fields.spec_texts import text_of
from warren_schemas.text.explain import explain

MAX_ITEMS = 64
"""Most items of one message."""
MAX_BATCH_BYTES = 256 * 1024
"""A message is closed when it reaches this; a single larger item travels alone."""


def _kinds() -> dict[Kind, type[Item]]:
    """Every kind of the modules that define messages."""
    found: dict[Kind, type[Item]] = {}
    for module in (control, episode, events, group_scoring, training):
        for item in vars(module).values():
            if isinstance(item, type) and issubclass(item, Item) and item is not Item:
                known = found.setdefault((item.kind, item.schema_version), item)
                if known is not item:
                    raise TypeError(f"{known} and {item} have the same kind and version")
    return found


KINDS = _kinds()

_VALIDATORS = {
    key: TypeAdapter(cast("type[list[Item]]", GenericAlias(list, item))).validator
    for key, item in KINDS.items()
}


@dataclass(frozen=True, slots=True)
class Rejected:
    """An item that did not validate: where it stood, why, and itself as a message of its own."""

    index: int
    reason: str
    body: bytes


@dataclass(frozen=True, slots=True)
class Decoded:
    items: list[Item]
    rejected: list[Rejected]


def encode(items: Sequence[Item]) -> bytes:
    """One message of one to `MAX_ITEMS` items of one kind.

    Raises `WireError` for mixed kinds, no items, or a message over `MAX_MESSAGE_BYTES`.
    """
    if not 0 < len(items) <= MAX_ITEMS:
        raise WireError(f"a message carries 1 to {MAX_ITEMS} items, not {len(items)}")
    kind = type(items[0])
    if any(type(item) is not kind for item in items):
        raise WireError("a message carries items of one kind only")
    writer = ColumnWriter()
    return write((kind.kind, kind.schema_version), _to_json(items, writer), writer)


def decode(body: bytes) -> Decoded:
    """The items of a message, validated. Their arrays are views that keep `body` in memory.

    Raises `WireError` when the frame itself can't be read; items that don't validate come back in
    `rejected`.
    """
    frame = read(body, KINDS)
    try:
        items = _VALIDATORS[frame.kind].validate_json(
            frame.items, strict=True, context=frame.context
        )
    except ValidationError:
        return _decode_one_by_one(frame)
    _require_count(len(items))
    return Decoded(items, [])


@dataclass(frozen=True, slots=True)
class Glimpse:
    """What can be told of a message without validating it."""

    kind: str
    items: tuple[object, ...]
    """As JSON, with what stands in texts of its own; arrays are spans of their columns."""

    @property
    def runs(self) -> set[object]:
        """Whose items these are; None for an item that names no run."""
        envelopes = [_mapping(_mapping(item).get("envelope")) for item in self.items]
        return {envelope.get("run") for envelope in envelopes}


def glimpse(body: bytes) -> Glimpse | None:
    """A look into a message, good or bad; None where not even its frame can be read."""
    try:
        frame = read(body, KINDS)
        items: object = orjson.loads(frame.items)
    except (WireError, orjson.JSONDecodeError):
        return None
    if not isinstance(items, list):
        return None
    items = cast("list[object]", items)
    return Glimpse(frame.kind[0], tuple(_with_texts(item, frame.texts) for item in items))


def _mapping(value: object) -> dict[str, object]:
    return cast("dict[str, object]", value) if isinstance(value, dict) else {}


def _with_texts(value: object, texts: list[bytes]) -> object:
    """The value with texts in place of their numbers, as far as they can be read."""
    if isinstance(value, list):
        return [_with_texts(part, texts) for part in cast("list[object]", value)]
    fields = _mapping(value)
    if fields.keys() == {TEXTS}:
        lists = [_listed(_loaded(number, texts)) for number in _listed(fields[TEXTS])]
        return [entry for entries in lists for entry in entries]
    if not fields:
        return value
    shown = {key: _with_texts(part, texts) for key, part in fields.items()}
    return shown | ({SPEC: _loaded(fields[SPEC], texts)} if SPEC in fields else {})


def _loaded(number: object, texts: list[bytes]) -> object:
    """What a text says; where that can't be read, its number."""
    try:
        return orjson.loads(texts[number]) if _is_number(number, len(texts)) else number
    except orjson.JSONDecodeError:
        return number


def _listed(value: object) -> list[object]:
    return cast("list[object]", value) if isinstance(value, list) else [value]


def _is_number(value: object, n_texts: int) -> TypeGuard[int]:
    return type(value) is int and 0 <= value < n_texts


def _to_json(items: Sequence[Item], writer: ColumnWriter) -> bytes:
    comes_back = isinstance(items[0], Generate | Step)

    def plain(value: BaseModel) -> object:
        kind = type(value)
        if kind is EpisodeSpec:  # an `isinstance` of models costs as much as all the rest
            return writer.add_shared_text(text_of(value))
        apart = apart_of(kind)
        if apart is None:
            return value.__dict__
        fields = apart.without_defaults(value)
        for name, rule in apart.arrays:
            if (array := fields.get(name)) is not None:
                fields[name] = writer.add(name, rule, array)
        for name, layout in apart.spans:
            if name in fields and layout.tells_all(arrays := fields[name].__dict__):
                fields[name] = writer.add_together(name, layout, arrays)
        for name, mark in apart.lists:
            if name in fields and len(entries := fields[name]) > MAX_SHORT:
                texts = mark.texts(value, entries, comes_back=comes_back)
                fields[name] = {TEXTS: [writer.add_text(text) for text in texts]}
        return fields

    try:
        return orjson.dumps(items, default=plain)
    except orjson.JSONEncodeError as error:
        raise WireError(str(error.__cause__ or error)) from error


def _require_count(n: int) -> None:
    if not 0 < n <= MAX_ITEMS:
        raise WireError(f"a message carries 1 to {MAX_ITEMS} items, not {n}")


def _decode_one_by_one(frame: Frame) -> Decoded:
    try:
        raw = orjson.loads(frame.items)
    except orjson.JSONDecodeError as error:
        raise WireError(f"the items are not JSON: {error}") from error
    if not isinstance(raw, list):
        raise WireError("the items are not a list")
    raw = cast("list[object]", raw)
    _require_count(len(raw))
    decoded = Decoded([], [])
    for index, item in enumerate(raw):
        _decode_one(frame, index, item, decoded)
    return decoded


def _decode_one(frame: Frame, index: int, item: object, decoded: Decoded) -> None:
    schema = KINDS[frame.kind]
    try:
        text = orjson.dumps(item)
        decoded.items.append(schema.model_validate_json(text, strict=True, context=frame.context))
    except orjson.JSONEncodeError as error:
        raise WireError(f"item {index} can't be read: {error}") from error
    except ValidationError as error:
        reason = f"item {index}: {'; '.join(explain(error, schema))}"
        decoded.rejected.append(Rejected(index, reason, _alone(frame, item)))


def _alone(frame: Frame, item: object) -> bytes:
    """The item as a message of its own, otherwise as it came; its parts of the columns go along."""
    writer = ColumnWriter()
    try:
        moved = orjson.dumps([_move(item, frame, writer)])
    except orjson.JSONEncodeError as error:  # as deep as an item may be, and the list around it
        raise WireError(f"an item can't be read: {error}") from error
    return write(frame.kind, moved, writer)


def _move(value: object, frame: Frame, writer: ColumnWriter) -> object:
    """The value with its spans and numbers pointing to what the writer has."""
    if isinstance(value, list):
        return [_move(part, frame, writer) for part in cast("list[object]", value)]
    if not isinstance(value, dict):
        return value
    moved = dict(cast("dict[str, object]", value))
    for key, part in moved.items():
        match part:
            case [int(start), int(stop)] if key in frame.columns:
                moved[key] = _moved_span(key, slice(start, stop), frame, writer)
            case number if key == SPEC and _is_number(number, len(frame.texts)):
                moved[key] = writer.add_shared_text(frame.texts[number])
            case _ if key == TEXTS:
                moved[key] = [_moved_text(number, frame, writer) for number in _listed(part)]
            case _:
                moved[key] = _move(part, frame, writer)
    return moved


def _moved_span(field: str, span: slice, frame: Frame, writer: ColumnWriter) -> list[int]:
    columns = frame.columns[field]
    if isinstance(columns, AlignedColumns):
        return writer.add_together(field, columns.layout, columns.cut(span.start, span.stop))
    rule, array, _ = columns
    return writer.add(field, rule, array[span])


def _moved_text(number: object, frame: Frame, writer: ColumnWriter) -> object:
    is_there = _is_number(number, len(frame.texts))
    return writer.add_text(frame.texts[number]) if is_there else number
