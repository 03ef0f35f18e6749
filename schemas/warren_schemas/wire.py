"""The wire codec: an orjson header followed by raw little-endian arrays.

    4 bytes   magic `WRN1`
    4 bytes   header length, u32 little-endian
    header    {"kind", "version", "arrays": [[dtype, length], ...], "items": [...]}
    arrays    in the order of their slots, each padded to 8 bytes

An array inside an item is `{"$array": slot}` in the header. Decoding validates everything: frame
lengths, dtypes, aligned lengths, ranges, finiteness, unknown keys. Items are independent, so a bad
one is reported by itself and its neighbours are still delivered.
"""

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import orjson
from numpy.typing import NDArray
from pydantic import BaseModel, TypeAdapter, ValidationError

from warren_schemas.arrays import SLOT
from warren_schemas.control import Heartbeat, PolicyPublished, RunEnded
from warren_schemas.envelope import Item
from warren_schemas.episode import EpisodeEnded, Generate, StartEpisode, Step
from warren_schemas.events import RunEvent
from warren_schemas.explain import explain
from warren_schemas.training import CloseModel, Op, OpenModel, OpResult

MAGIC = b"WRN1"
MAX_ITEMS = 64
"""Most items of one message."""
MAX_BATCH_BYTES = 256 * 1024
"""A message is closed when it reaches this; a single larger item travels alone."""
MAX_MESSAGE_BYTES = 8 * 1024 * 1024
"""No message is larger: blobs travel by reference."""

_PREFIX = struct.Struct("<4sI")
_DTYPES = {"<i4": np.dtype("<i4"), "<u1": np.dtype("u1"), "<f4": np.dtype("<f4")}
_CODES = {np.dtype("<i4"): "<i4", np.dtype("u1"): "<u1", np.dtype("<f4"): "<f4"}

KINDS: dict[tuple[str, int], type[Item]] = {
    (item.kind, item.schema_version): item
    for item in (
        StartEpisode, Generate, Step, EpisodeEnded,
        Op, OpResult, OpenModel, CloseModel,
        Heartbeat, PolicyPublished, RunEnded, RunEvent,
    )
}  # fmt: skip
_ADAPTERS = {key: TypeAdapter(list[item]) for key, item in KINDS.items()}


class WireError(ValueError):
    """A message, or one item of it, can't be read; says what is wrong with it."""


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
    first = type(items[0])
    if any(type(item) is not first for item in items):
        raise WireError("a message carries items of one kind only")
    return _frame(first.kind, first.schema_version, list(items))


def decode(body: bytes) -> Decoded:
    """The items of a message, validated.

    Raises `WireError` when the frame itself can't be read; items that don't validate come back in
    `rejected`.
    """
    header, arrays = _open_frame(body)
    adapter = _ADAPTERS.get((header["kind"], header["version"]))
    if adapter is None:
        raise WireError(f"no schema for {header['kind']!r} version {header['version']!r}")
    raw = header["items"]
    if not isinstance(raw, list) or not 0 < len(cast("list[object]", raw)) <= MAX_ITEMS:
        raise WireError(f"a message carries 1 to {MAX_ITEMS} items")
    raw = cast("list[object]", raw)
    context = {"arrays": arrays}
    try:
        return Decoded(adapter.validate_python(raw, context=context), [])
    except ValidationError:
        return _one_by_one(header, raw, arrays)


def _one_by_one(header: dict[str, Any], raw: list[object], arrays: list[NDArray[Any]]) -> Decoded:
    adapter = _ADAPTERS[(header["kind"], header["version"])]
    decoded = Decoded([], [])
    for index, item in enumerate(raw):
        try:
            decoded.items.extend(adapter.validate_python([item], context={"arrays": arrays}))
        except ValidationError as error:
            body = _frame(header["kind"], header["version"], [_inline(item, arrays)])
            reason = "; ".join(explain(error))
            decoded.rejected.append(Rejected(index, reason, body))
    return decoded


def _inline(value: object, arrays: list[NDArray[Any]]) -> object:
    """The item with its arrays in place of their slots, so that it can be framed alone."""
    if isinstance(value, dict):
        mapping = cast("dict[str, object]", value)
        slot = mapping.get(SLOT)
        if type(slot) is int and 0 <= slot < len(arrays):
            return arrays[slot]
        return {key: _inline(item, arrays) for key, item in mapping.items()}
    if isinstance(value, list):
        return [_inline(item, arrays) for item in cast("list[object]", value)]
    return value


def _frame(kind: str, version: int, items: list[Any]) -> bytes:
    arrays: list[NDArray[Any]] = []

    def plain(value: object) -> object:
        if isinstance(value, np.ndarray):
            arrays.append(cast("NDArray[Any]", value))
            return {SLOT: len(arrays) - 1}
        if isinstance(value, BaseModel):
            return value.__dict__
        raise TypeError(f"{type(value).__name__} can't travel in a message")

    try:
        listed = orjson.dumps(items, default=plain)
    except orjson.JSONEncodeError as error:
        raise WireError(str(error.__cause__ or error)) from error
    shapes = orjson.dumps([[_CODES[a.dtype], a.size] for a in arrays])
    header = b'{"kind":%b,"version":%d,"arrays":%b,"items":%b}' % (
        orjson.dumps(kind),
        version,
        shapes,
        listed,
    )
    parts = [_PREFIX.pack(MAGIC, len(header)), header, b"\0" * (-len(header) % 8)]
    for array in arrays:
        parts += (array.tobytes(), b"\0" * (-array.nbytes % 8))
    body = b"".join(parts)
    if len(body) > MAX_MESSAGE_BYTES:
        raise WireError(f"a message of {len(body)} bytes is over {MAX_MESSAGE_BYTES}")
    return body


def _open_frame(body: bytes) -> tuple[dict[str, Any], list[NDArray[Any]]]:
    if len(body) < _PREFIX.size:
        raise WireError(f"{len(body)} bytes are too few for a message")
    magic, n_header = _PREFIX.unpack_from(body)
    if magic != MAGIC:
        raise WireError(f"a message starts with {MAGIC!r}, not with {magic!r}")
    end = _PREFIX.size + n_header
    if end > len(body):
        raise WireError(f"the header should take {n_header} bytes and the message ends before")
    try:
        header = orjson.loads(memoryview(body)[_PREFIX.size : end])
    except orjson.JSONDecodeError as error:
        raise WireError(f"the header is not JSON: {error}") from error
    if not isinstance(header, dict) or set(cast("dict[str, object]", header)) != {
        "kind", "version", "arrays", "items",
    }:  # fmt: skip
        raise WireError("the header must hold kind, version, arrays and items")
    header = cast("dict[str, Any]", header)
    return header, _read_arrays(body, end + (-n_header % 8), header["arrays"])


def _read_arrays(body: bytes, offset: int, shapes: object) -> list[NDArray[Any]]:
    arrays: list[NDArray[Any]] = []
    try:
        for code, size in cast("list[tuple[str, int]]", shapes):
            dtype = _DTYPES[code]
            arrays.append(np.frombuffer(body, dtype, size, offset))
            n_bytes = size * dtype.itemsize
            offset += n_bytes + (-n_bytes % 8)
    except (KeyError, TypeError, ValueError) as error:
        raise WireError(f"array {len(arrays)} can't be read: {error}") from error
    if offset != len(body):
        raise WireError(f"{len(body) - offset} bytes are left over after the last array")
    return arrays
