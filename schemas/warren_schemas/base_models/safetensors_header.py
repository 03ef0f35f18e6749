"""The header of a safetensors file, read without a tensor library.

The file begins with the length of its header (8 bytes, little-endian); the header is JSON, a dtype, a shape and
a place for each tensor; the numbers fill the rest.

Invariant: nothing is taken from the file's own word before it is held against the file's size: reading a hostile file
takes no more memory than `MAX_HEADER_BYTES` allow.
"""

from collections.abc import Iterable
from math import prod
from typing import NamedTuple, Protocol, cast

import orjson

MAX_HEADER_BYTES = 8 * 1024 * 1024
ITEM_BYTES = {"F32": 4, "F16": 2, "BF16": 2}
"""Of the dtypes that are taken."""
_LENGTH_BYTES = 8
_METADATA = "__metadata__"


class BadTensors(ValueError):
    """This is no safetensors file that can be used here; says what is wrong and where."""


class Readable(Protocol):
    def read(self, size: int = -1, /) -> bytes: ...


class Placed(NamedTuple):
    """A tensor, as the header has it."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    begin: int
    end: int


class Header(NamedTuple):
    tensors: dict[str, object]
    """By name, as JSON has them."""
    rest_bytes: int
    """Behind the header."""


def read_header(file: Readable, size_bytes: int, what: str) -> Header:
    """Of the file that is called `what`, from its beginning. Raises `BadTensors`."""
    length = int.from_bytes(read_exactly(file, _LENGTH_BYTES, what), "little")
    rest_bytes = size_bytes - _LENGTH_BYTES - length
    if length > MAX_HEADER_BYTES or rest_bytes < 0:
        raise BadTensors(
            f"{what} is no safetensors file: its header would have {length} bytes, of {size_bytes} in all and at"
            f" most {MAX_HEADER_BYTES}; pickled files (.bin, .pt) are not taken"
        )
    try:
        header = orjson.loads(read_exactly(file, length, what))
    except orjson.JSONDecodeError as error:
        raise BadTensors(
            f"{what} is no safetensors file: its header is not JSON ({error}); pickled files (.bin, .pt) are not taken"
        ) from error
    if not isinstance(header, dict):
        raise BadTensors(f"{what} is no safetensors file: its header is no object")
    tensors = cast("dict[str, object]", header)
    tensors.pop(_METADATA, None)
    return Header(tensors, rest_bytes)


def check_places(tensors: Iterable[Placed], rest_bytes: int, what: str) -> None:
    """In the order of the file they follow each other without a gap and end with it, or one number would be read as two.

    Raises `BadTensors`.
    """
    at = 0
    for name, dtype, shape, begin, end in tensors:
        size_bytes = prod(shape) * ITEM_BYTES[dtype]
        if begin != at or end - begin != size_bytes:
            raise BadTensors(
                f"{what}: {name} lies at {begin} to {end}, and should have {size_bytes} bytes from {at} on"
            )
        at = end
    if at != rest_bytes:
        raise BadTensors(
            f"{what}: its tensors have {at} bytes, and {rest_bytes} follow its header; is the file whole?"
        )


def read_exactly(file: Readable, n_bytes: int, what: str) -> bytes:
    """Raises `BadTensors` where the file ends before."""
    found = bytearray()
    while len(found) < n_bytes:
        piece = file.read(n_bytes - len(found))
        if not piece:
            raise BadTensors(f"{what} is no safetensors file, or ends too early")
        found += piece
    return bytes(found)
