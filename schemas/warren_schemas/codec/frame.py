"""The bytes of a message: a frame around items, the texts and the arrays that they point to.

4 bytes   magic `WRN1`
4 bytes   length of the header, u32 little-endian
4 bytes   length of the items, u32 little-endian
header    JSON {"kind", "version", "columns": [[field, rule or layout, dtypes, length], ...], "texts": [...]}
items     JSON list; an array is a span of its column, as in "ids_N": [0, 128], arrays of one length share
          a span, as in "tokens": [0, 128] (see `one_span`), a spec is the number of its text, and a list
          that grows the numbers of its texts, as in "messages": {"texts": [1, 2]}
texts     one after another, of so many bytes as the header says (see `spec_texts`, `growing_lists`)
padding   to a multiple of 8 bytes
columns   in the order of the header, each padded to a multiple of 8 bytes (see `columns`)
"""

import struct
from collections.abc import Container
from typing import NamedTuple

import orjson
from pydantic import ConfigDict, NonNegativeInt, TypeAdapter, ValidationError, with_config
from typing_extensions import TypedDict

from warren_schemas.codec.columns import (
    ALIGNMENT,
    PADDINGS,
    ColumnError,
    Columns,
    ColumnShape,
    ColumnWriter,
    read_columns,
)
from warren_schemas.fields.message_texts import TEXTS
from warren_schemas.text.explain import explain

MAGIC = b"WRN1"
MAX_MESSAGE_BYTES = 8 * 1024 * 1024
"""No message is larger: blobs travel by reference."""
SPEC = "spec"
_PREFIX = struct.Struct("<4sII")

Kind = tuple[str, int]
"""Name and version of a schema."""


class WireError(ValueError):
    """A message can't be written or read; says what is wrong with it."""


@with_config(ConfigDict(extra="forbid", strict=True))
class _Header(TypedDict):
    kind: str
    version: int
    columns: list[ColumnShape]
    texts: list[NonNegativeInt]


_HEADER_VALIDATOR = TypeAdapter(_Header).validator


class Frame(NamedTuple):
    kind: Kind
    items: bytes
    columns: Columns
    texts: list[bytes]

    @property
    def context(self) -> dict[str, object]:
        """What fields look for by their names while they are validated."""
        return {**self.columns, TEXTS: self.texts}


def write(kind: Kind, items: bytes, writer: ColumnWriter) -> bytes:
    texts = writer.texts
    try:
        columns, parts = writer.written()
    except ColumnError as error:
        raise WireError(str(error)) from error
    sizes = [len(text) for text in texts]
    header = orjson.dumps(_Header(kind=kind[0], version=kind[1], columns=columns, texts=sizes))
    prefix = _PREFIX.pack(MAGIC, len(header), len(items))
    padding = PADDINGS[-(len(prefix) + len(header) + len(items) + sum(sizes)) % ALIGNMENT]
    body = b"".join([prefix, header, items, *texts, padding, *parts])
    if len(body) > MAX_MESSAGE_BYTES:
        raise WireError(f"a message of {len(body)} bytes is over {MAX_MESSAGE_BYTES}")
    return body


def read(body: bytes, known: Container[Kind]) -> Frame:
    if not _PREFIX.size <= len(body) <= MAX_MESSAGE_BYTES:
        raise WireError(
            f"a message has {_PREFIX.size} to {MAX_MESSAGE_BYTES} bytes, not {len(body)}"
        )
    magic, n_header, n_items = _PREFIX.unpack_from(body)
    if magic != MAGIC:
        raise WireError(f"a message starts with {MAGIC!r}, not with {magic!r}")
    items_at = _PREFIX.size + n_header
    texts_at = items_at + n_items
    if texts_at > len(body):
        raise WireError(
            f"header and items should end at byte {texts_at} and the message at {len(body)}"
        )
    kind, header = _read_header(body[_PREFIX.size : items_at], known)
    texts, end = _read_texts(body, texts_at, header["texts"])
    try:
        columns = read_columns(body, end + (-end % ALIGNMENT), header["columns"])
    except ColumnError as error:
        raise WireError(str(error)) from error
    return Frame(kind, body[items_at:texts_at], columns, texts)


def _read_texts(body: bytes, start: int, sizes: list[int]) -> tuple[list[bytes], int]:
    """The texts, and where they end; a text beyond the end of the body comes out short."""
    texts: list[bytes] = []
    for size in sizes:
        texts.append(body[start : start + size])
        start += size
    return texts, start


def _read_header(text: bytes, known: Container[Kind]) -> tuple[Kind, _Header]:
    try:
        header: _Header = _HEADER_VALIDATOR.validate_json(text)
    except ValidationError as error:
        raise WireError(f"header: {'; '.join(explain(error))}") from error
    kind = header["kind"], header["version"]
    if kind not in known:
        raise WireError(f"no schema for {header['kind']!r} version {header['version']}")
    return kind, header
