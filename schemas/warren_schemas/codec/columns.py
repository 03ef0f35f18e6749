"""Columns: the arrays of a message, those of one field end to end.

A few long columns instead of many short arrays make a message of 64 small items as cheap to write,
read and check as one large item. A column starts on a multiple of 8 bytes.
"""

from functools import cache
from typing import Annotated, Any, get_args

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, Field
from pydantic.fields import FieldInfo

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

ALIGNMENT = 8

RULES: dict[str, ArrayRule] = {
    rule.name: rule
    for array in (TokenIds, Lengths, Places, MaskSizes, Versions, Mask, Logprobs, Weights)
    for rule in get_args(array)
    if isinstance(rule, ArrayRule)
}


class ColumnError(ValueError):
    """The columns of a message don't fit its header."""


ColumnShape = tuple[str, str, str, Annotated[int, Field(ge=0)]]
"""Field, rule, dtype code (`<i4`, `|u1` or `<f4`) and length of a column."""


class ColumnWriter:
    """Collects the arrays and the texts of one message."""

    def __init__(self) -> None:
        self._columns: dict[str, _GrowingColumn] = {}
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

    def add_fields(self, model: object) -> dict[str, Any]:
        """The fields of a model, with spans in place of arrays."""
        rules = array_fields(type(model))
        if not rules:
            return model.__dict__
        fields = dict(model.__dict__)
        for name, rule in rules:
            if fields[name] is not None:
                fields[name] = self.add(name, rule, fields[name])
        return fields

    def add(self, field: str, rule: ArrayRule, array: NDArray[Any]) -> list[int]:
        """Put the array at the end of its column; the span stands for it in the item."""
        column = self._columns.get(field)
        if column is None:
            column = self._columns[field] = _GrowingColumn(rule)
        column.parts.append(array)
        start = column.length
        column.length = stop = start + array.size
        return [start, stop]

    @property
    def shapes(self) -> list[ColumnShape]:
        return [(field, c.rule.name, c.rule.code, c.length) for field, c in self._columns.items()]

    def parts(self) -> list[Any]:
        """The columns as buffers, with padding; join them."""
        return [part for column in self._columns.values() for part in column.padded()]


class _GrowingColumn:
    def __init__(self, rule: ArrayRule) -> None:
        self.rule = rule
        self.parts: list[NDArray[Any]] = []
        self.length = 0

    def padded(self) -> list[Any]:
        return [*self.parts, bytes(-self.length * self.rule.itemsize % ALIGNMENT)]


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


@cache
def array_fields(model: type[object]) -> list[tuple[str, ArrayRule]]:
    """The array fields of a kind of model. Raises `TypeError` for what is no model."""
    if not issubclass(model, BaseModel):
        raise TypeError(f"{model.__name__} can't travel in a message")
    rules = {name: _rule(info) for name, info in model.model_fields.items()}
    return [(name, rule) for name, rule in rules.items() if rule is not None]


def _rule(info: FieldInfo) -> ArrayRule | None:
    """The rule of an array field, also of an optional one."""
    marks = [*info.metadata, *(mark for a in get_args(info.annotation) for mark in get_args(a))]
    return next((mark for mark in marks if isinstance(mark, ArrayRule)), None)
