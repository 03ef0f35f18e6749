"""Columns: the arrays of a message, those of one field end to end.

A few long columns instead of many short arrays make a message of 64 small items as cheap to write,
read and check as one large item. A column starts on a multiple of 8 bytes.
"""

from collections.abc import Iterator, Mapping
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
    Rules,
    TokenIds,
    Versions,
    Weights,
)
from warren_schemas.fields.one_span import AlignedColumns

ALIGNMENT = 8
_OF = "."
"""Between a field and its array, in the name of a column that shares its spans."""

RULES: dict[str, ArrayRule] = {
    rule.name: rule
    for array in (TokenIds, Lengths, Places, MaskSizes, Versions, Mask, Logprobs, Weights)
    for rule in get_args(array)
    if isinstance(rule, ArrayRule)
}


class ColumnError(ValueError):
    """The columns of a message don't fit its header, or each other."""


ColumnShape = tuple[str, str, str, Annotated[int, Field(ge=0)]]
"""Field, rule, dtype code (`<i4`, `|u1` or `<f4`) and length of a column."""


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
        self, field: str, rules: Rules, arrays: Mapping[str, NDArray[Any]]
    ) -> list[int]:
        """Put arrays of one length at the ends of their columns; the span stands for all of them in the item."""
        columns = self._aligned.get(field)
        if columns is None:
            columns = self._aligned[field] = _GrowingColumns(rules)
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

    def columns(self) -> "dict[str, _GrowingColumn]":
        """By the names that they have in the message. Raises `ColumnError` where those of one field differ in length."""
        found = dict(self._columns)
        for field, columns in self._aligned.items():
            found.update((f"{field}{_OF}{name}", column) for name, column in columns.apart())
        return found


class _GrowingColumn:
    def __init__(self, rule: ArrayRule) -> None:
        self.rule = rule
        self.parts: list[NDArray[Any]] = []
        self.length = 0

    def padded(self) -> list[Any]:
        return [*self.parts, bytes(-self.length * self.rule.itemsize % ALIGNMENT)]


class _GrowingColumns:
    """Those of one field; they share its spans."""

    def __init__(self, rules: Rules) -> None:
        self._rules = rules
        self._first = rules[0][0]
        self._parts: list[Mapping[str, NDArray[Any]]] = []
        self._sizes: list[int] = []
        self._length = 0

    def add(self, arrays: Mapping[str, NDArray[Any]]) -> list[int]:
        size = arrays[self._first].size
        self._parts.append(arrays)
        self._sizes.append(size)
        start = self._length
        self._length = stop = start + size
        return [start, stop]

    def apart(self) -> Iterator[tuple[str, _GrowingColumn]]:
        """Each of them. Raises `ColumnError` where the arrays of a part differ in length."""
        for name, rule in self._rules:
            column = _GrowingColumn(rule)
            column.parts = [arrays[name] for arrays in self._parts]
            column.length = self._length
            if [part.size for part in column.parts] != self._sizes:
                raise ColumnError(f"arrays differ in length: {name} and {self._first}")
            yield name, column


def read_columns(body: bytes, offset: int, shapes: list[ColumnShape]) -> dict[str, Column]:
    """The columns of a message, which must fill `body` from `offset` to its end exactly.

    Raises `ColumnError` where they don't. The arrays are views: they keep `body` in memory.
    """
    columns: dict[str, Column] = {}
    for field, name, code, length in shapes:
        rule = RULES.get(name)
        if rule is None or rule.code != code or field in columns:
            raise ColumnError(f"column {field!r} of {name} {code} is unknown, or there twice")
        n_bytes = length * rule.itemsize
        if offset + n_bytes > len(body):
            raise ColumnError(f"the message ends before column {field} does")
        array = np.frombuffer(body, rule.dtype, length, offset)
        columns[field] = (rule, array, rule.is_kept(array))
        offset += n_bytes + (-n_bytes % ALIGNMENT)
    if offset != len(body):
        raise ColumnError(f"the message should have {offset} bytes and has {len(body)}")
    return columns


def aligned(columns: dict[str, Column]) -> dict[str, AlignedColumns]:
    """By field, the columns that share spans. Raises `ColumnError` where those of a field differ in length."""
    fields: dict[str, dict[str, Column]] = {}
    for name, column in columns.items():
        field, of, array = name.partition(_OF)
        if of:
            fields.setdefault(field, {})[array] = column
    return {field: _aligned(field, parts) for field, parts in fields.items()}


def _aligned(field: str, columns: dict[str, Column]) -> AlignedColumns:
    lengths = {array.size for _, array, _ in columns.values()}
    if len(lengths) != 1:
        raise ColumnError(f"the columns of {field} differ in length")
    return AlignedColumns(
        [(name, rule) for name, (rule, _, _) in columns.items()],
        {name: array for name, (_, array, _) in columns.items()},
        lengths.pop(),
        are_kept=all(is_kept for _, _, is_kept in columns.values()),
    )
