"""The wire codec: items as JSON, their arrays behind them as raw little-endian columns.

    4 bytes   magic `WRN1`
    4 bytes   length of the header, u32 little-endian
    4 bytes   length of the items, u32 little-endian
    header    JSON {"kind", "version", "columns": [[field, rule, dtype, length], ...]}
    items     JSON list; an array is a span of its column, as in "ids_T": [0, 128]
    padding   to a multiple of 8 bytes
    columns   in the order of the header, each padded to a multiple of 8 bytes (see `columns`)

Decoding validates everything: lengths of the frame and of aligned arrays, dtypes, ranges,
finiteness, types without coercion, unknown keys. Items are independent: a bad one is reported by
itself, with item and field, and its neighbours are still delivered. Nothing but `WireError` leaves
`decode`, whatever the bytes.
"""

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from types import GenericAlias
from typing import NamedTuple, cast

import orjson
from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError, with_config
from typing_extensions import TypedDict

from warren_schemas.columns import (
    ALIGNMENT,
    Column,
    ColumnError,
    ColumnShape,
    ColumnWriter,
    read_columns,
)
from warren_schemas.control import EpisodeCancelled, Heartbeat, PolicyPublished, RunEnded
from warren_schemas.envelope import Item
from warren_schemas.episode import EpisodeEnded, Generate, StartEpisode, Step
from warren_schemas.events import RunEvent
from warren_schemas.explain import explain
from warren_schemas.training import CloseModel, DeleteModel, Op, OpenModel, OpResult

MAGIC = b"WRN1"
MAX_ITEMS = 64
"""Most items of one message."""
MAX_BATCH_BYTES = 256 * 1024
"""A message is closed when it reaches this; a single larger item travels alone."""
MAX_MESSAGE_BYTES = 8 * 1024 * 1024
"""No message is larger: blobs travel by reference."""

KINDS: dict[tuple[str, int], type[Item]] = {
    (item.kind, item.schema_version): item
    for item in (
        StartEpisode, Generate, Step, EpisodeEnded,
        Op, OpResult, OpenModel, CloseModel, DeleteModel,
        Heartbeat, PolicyPublished, RunEnded, EpisodeCancelled, RunEvent,
    )
}  # fmt: skip

_PREFIX = struct.Struct("<4sII")
_VALIDATORS = {
    key: TypeAdapter(cast("type[list[Item]]", GenericAlias(list, item))).validator
    for key, item in KINDS.items()
}


class WireError(ValueError):
    """A message can't be written or read; says what is wrong with it."""


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


@with_config(ConfigDict(extra="forbid", strict=True))
class _Header(TypedDict):
    kind: str
    version: int
    columns: list[ColumnShape]


_HEADER_VALIDATOR = TypeAdapter(_Header).validator


class _Frame(NamedTuple):
    kind: tuple[str, int]
    items: bytes
    columns: dict[str, Column]

    def validate(self, items: bytes) -> list[Item]:
        return _VALIDATORS[self.kind].validate_json(items, strict=True, context=self.columns)


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
    return _write((kind.kind, kind.schema_version), _to_json(items, writer), writer)


def decode(body: bytes) -> Decoded:
    """The items of a message, validated. Their arrays are views that keep `body` in memory.

    Raises `WireError` when the frame itself can't be read; items that don't validate come back in
    `rejected`.
    """
    frame = _read(body)
    try:
        items = frame.validate(frame.items)
    except ValidationError:
        return _decode_one_by_one(frame)
    _require_count(len(items))
    return Decoded(items, [])


@dataclass(frozen=True, slots=True)
class Glimpse:
    """What can be told of a message without validating it."""

    kind: str
    items: tuple[object, ...]
    """As JSON; arrays are spans of their columns."""

    @property
    def runs(self) -> set[object]:
        """Whose items these are; None for an item that names no run."""
        envelopes = [_mapping(_mapping(item).get("envelope")) for item in self.items]
        return {envelope.get("run") for envelope in envelopes}


def glimpse(body: bytes) -> Glimpse | None:
    """A look into a message, good or bad; None where not even its frame can be read."""
    try:
        frame = _read(body)
        items = orjson.loads(frame.items)
    except (WireError, orjson.JSONDecodeError):
        return None
    if not isinstance(items, list):
        return None
    return Glimpse(frame.kind[0], tuple(cast("list[object]", items)))


def _mapping(value: object) -> dict[str, object]:
    return cast("dict[str, object]", value) if isinstance(value, dict) else {}


def _to_json(items: Sequence[Item], writer: ColumnWriter) -> bytes:
    def plain(value: object) -> object:
        if isinstance(value, BaseModel):
            return writer.add_fields(value)
        raise TypeError(f"{type(value).__name__} can't travel in a message")

    try:
        return orjson.dumps(items, default=plain)
    except orjson.JSONEncodeError as error:
        raise WireError(str(error.__cause__ or error)) from error


def _write(kind: tuple[str, int], items: bytes, writer: ColumnWriter) -> bytes:
    header = orjson.dumps({"kind": kind[0], "version": kind[1], "columns": writer.shapes})
    prefix = _PREFIX.pack(MAGIC, len(header), len(items))
    padding = b"\0" * (-(len(prefix) + len(header) + len(items)) % ALIGNMENT)
    body = b"".join([prefix, header, items, padding, *writer.parts()])
    if len(body) > MAX_MESSAGE_BYTES:
        raise WireError(f"a message of {len(body)} bytes is over {MAX_MESSAGE_BYTES}")
    return body


def _read(body: bytes) -> _Frame:
    if not _PREFIX.size <= len(body) <= MAX_MESSAGE_BYTES:
        raise WireError(
            f"a message has {_PREFIX.size} to {MAX_MESSAGE_BYTES} bytes, not {len(body)}"
        )
    magic, n_header, n_items = _PREFIX.unpack_from(body)
    if magic != MAGIC:
        raise WireError(f"a message starts with {MAGIC!r}, not with {magic!r}")
    items_at = _PREFIX.size + n_header
    end = items_at + n_items
    if end > len(body):
        raise WireError(f"header and items should end at byte {end} and the message at {len(body)}")
    kind, shapes = _read_header(body[_PREFIX.size : items_at])
    try:
        columns = read_columns(body, end + (-end % ALIGNMENT), shapes)
    except ColumnError as error:
        raise WireError(str(error)) from error
    return _Frame(kind, body[items_at:end], columns)


def _read_header(text: bytes) -> tuple[tuple[str, int], list[ColumnShape]]:
    try:
        header: _Header = _HEADER_VALIDATOR.validate_json(text)
    except ValidationError as error:
        raise WireError(f"header: {'; '.join(explain(error))}") from error
    kind = header["kind"], header["version"]
    if kind not in KINDS:
        raise WireError(f"no schema for {header['kind']!r} version {header['version']}")
    return kind, header["columns"]


def _require_count(n: int) -> None:
    if not 0 < n <= MAX_ITEMS:
        raise WireError(f"a message carries 1 to {MAX_ITEMS} items, not {n}")


def _decode_one_by_one(frame: _Frame) -> Decoded:
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


def _decode_one(frame: _Frame, index: int, item: object, decoded: Decoded) -> None:
    schema = KINDS[frame.kind]
    try:
        text = orjson.dumps(item)
        decoded.items.append(schema.model_validate_json(text, strict=True, context=frame.columns))
    except orjson.JSONEncodeError as error:
        raise WireError(f"item {index} can't be read: {error}") from error
    except ValidationError as error:
        reason = f"item {index}: {'; '.join(explain(error, schema))}"
        decoded.rejected.append(Rejected(index, reason, _alone(frame, item)))


def _alone(frame: _Frame, item: object) -> bytes:
    """The item as a message of its own, otherwise as it came; its parts of the columns go along."""
    writer = ColumnWriter()
    moved = orjson.dumps([_move(item, frame.columns, writer)])
    return _write(frame.kind, moved, writer)


def _move(value: object, columns: dict[str, Column], writer: ColumnWriter) -> object:
    """The value with its spans pointing into the writer's columns."""
    if isinstance(value, list):
        return [_move(part, columns, writer) for part in cast("list[object]", value)]
    if not isinstance(value, dict):
        return value
    moved = dict(cast("dict[str, object]", value))
    for key, part in moved.items():
        match part:
            case [int(start), int(stop)] if key in columns:
                rule, array, _ = columns[key]
                moved[key] = writer.add(key, rule, array[start:stop])
            case _:
                moved[key] = _move(part, columns, writer)
    return moved
