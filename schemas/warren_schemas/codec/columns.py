"""Columns: the arrays of a message, those of one field end to end.

A few long columns instead of many short arrays make a message of 64 small items as cheap to write,
read and check as one large item. A column starts on a multiple of 8 bytes.
"""

from collections.abc import Mapping
from typing import Annotated, Any, get_args

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from warren_schemas.fields.arrays import (
    ArrayRule,
    Column,
    Lengths,
    Logprobs,
    Mask,
    MaskSizes,
    Places,
    TokenIds,
    Versions,
    Weights,
)
from warren_schemas.fields.one_span import LAYOUTS, AlignedColumns, Layout

ALIGNMENT = 8
PADDINGS = [bytes(n) for n in range(ALIGNMENT)]

RULES: dict[str, ArrayRule] = {
    rule.name: rule
    for array in (TokenIds, Lengths, Places, MaskSizes, Versions, Mask, Logprobs, Weights)
    for rule in get_args(array)
    if isinstance(rule, ArrayRule)
}


class ColumnError(ValueError):
    """The columns of a message don't fit its header, or each other."""


ColumnShape = tuple[str, str, str, Annotated[int, Field(ge=0)]]
"""Field, rule, dtype code (`<i4`, `|u1` or `<f4`) and length of a column; of columns that share spans the layout's
name and code."""


class ColumnWriter:
    """Collects the arrays and the texts of one message."""

    def __init__(self) -> None:
        self._columns: dict[str, _GrowingColumn] = {}
        self._aligned: dict[str, _GrowingColumns] = {}
        self._shared: dict[bytes, int] = {}
        self.texts: list[bytes] = []

    def add_text(self, text: bytes) -> int:
        """The number by which items speak of this text."""
        self.texts.append(text)
        return len(self.texts) - 1

    def add_shared_text(self, text: bytes) -> int:
        """The same; one that several items have stands there once."""
        found = self._shared.get(text)
        if found is None:
            found = self._shared[text] = self.add_text(text)
        return found

    def add_together(
        self, field: str, layout: Layout, arrays: Mapping[str, NDArray[Any]]
    ) -> list[int]:
        """Put arrays of one length at the ends of their columns; the span stands for all of them in the item."""
        columns = self._aligned.get(field)
        if columns is None:
            columns = self._aligned[field] = _GrowingColumns(layout)
        return columns.add(arrays)

    def add(self, field: str, rule: ArrayRule, array: NDArray[Any]) -> list[int]:
        """Put the array at the end of its column; the span stands for it in the item."""
        column = self._columns.get(field)
        if column is None:
            column = self._columns[field] = _GrowingColumn(rule)
        column.parts.append(array)
        start = column.length
        column.length = stop = start + array.size
        return [start, stop]

    def written(self) -> tuple[list[ColumnShape], list[Any]]:
        """The shapes of all columns and what holds their bytes. Raises `ColumnError` where those of one field differ in length."""
        shapes: list[ColumnShape] = []
        parts: list[Any] = []
        for field, column in self._columns.items():
            rule, length = column.rule, column.length
            shapes.append((field, rule.name, rule.code, length))
            parts += column.parts
            parts.append(PADDINGS[-length * rule.itemsize % ALIGNMENT])
        for field, columns in self._aligned.items():
            layout, length = columns.layout, columns.length
            shapes.append((field, layout.name, layout.code, length))
            for name, rule in layout.rules:
                parts += columns.of(name)
                parts.append(PADDINGS[-length * rule.itemsize % ALIGNMENT])
        return shapes, parts


class _GrowingColumn:
    __slots__ = ("length", "parts", "rule")

    def __init__(self, rule: ArrayRule) -> None:
        self.rule = rule
        self.parts: list[NDArray[Any]] = []
        self.length = 0


class _GrowingColumns:
    """Those of one field; they share its spans."""

    __slots__ = ("_first", "_parts", "_sizes", "layout", "length")

    def __init__(self, layout: Layout) -> None:
        self.layout = layout
        self._first = layout.rules[0][0]
        self._parts: list[Mapping[str, NDArray[Any]]] = []
        self._sizes: list[int] = []
        self.length = 0

    def add(self, arrays: Mapping[str, NDArray[Any]]) -> list[int]:
        size = arrays[self._first].size
        self._parts.append(arrays)
        self._sizes.append(size)
        start = self.length
        self.length = stop = start + size
        return [start, stop]

    def of(self, name: str) -> list[NDArray[Any]]:
        """The parts of one of them. Raises `ColumnError` where they differ in length from those of the first."""
        parts = [arrays[name] for arrays in self._parts]
        if [part.size for part in parts] != self._sizes:
            raise ColumnError(f"arrays differ in length: {name} and {self._first}")
        return parts


Columns = dict[str, Column | AlignedColumns]
"""Those of a message, by field."""


def read_columns(body: bytes, offset: int, shapes: list[ColumnShape]) -> Columns:
    """The columns of a message, which must fill `body` from `offset` to its end exactly.

    Raises `ColumnError` where they don't. The arrays are views: they keep `body` in memory.
    """
    columns: Columns = {}
    for field, name, code, length in shapes:
        known = RULES.get(name) or LAYOUTS.get(name)
        if known is None or known.code != code or field in columns:
            raise ColumnError(f"column {field!r} of {name} {code} is unknown, or there twice")
        if isinstance(known, ArrayRule):
            columns[field], offset = _read(body, offset, field, known, length)
        else:
            columns[field], offset = _read_together(body, offset, field, known, length)
    if offset != len(body):
        raise ColumnError(f"the message should have {offset} bytes and has {len(body)}")
    return columns


def _read(body: bytes, offset: int, field: str, rule: ArrayRule, length: int) -> tuple[Column, int]:
    """A column, and where the next one starts."""
    n_bytes = length * rule.itemsize
    if offset + n_bytes > len(body):
        raise ColumnError(f"the message ends before column {field} does")
    array = np.frombuffer(body, rule.dtype, length, offset)
    return (rule, array, rule.is_kept(array)), offset + n_bytes + (-n_bytes % ALIGNMENT)


def _read_together(
    body: bytes, offset: int, field: str, layout: Layout, length: int
) -> tuple[AlignedColumns, int]:
    """The columns of one field, and where the next one starts."""
    columns = AlignedColumns(layout, {}, length, are_kept=True)
    for name, rule in layout.rules:
        (_, array, is_kept), offset = _read(body, offset, field, rule, length)
        columns.arrays[name] = array
        columns.are_kept = columns.are_kept and is_kept
    return columns, offset
