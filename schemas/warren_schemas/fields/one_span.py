"""Models of arrays that have one length: in a message they share one span.

Their arrays lie in columns of their own, named after the field and the array (`tokens.ids_T`), and the field holds
the span of all of them: `"tokens": [0, 128]`. So four arrays cost little more than one. A model of which anything
else is set, such as a sampling mask, is written whole.

Invariant: the columns of a field have one length, so what a span cuts from them is aligned.
"""

from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple, cast

from numpy.typing import NDArray
from pydantic import BaseModel, GetCoreSchemaHandler, GetJsonSchemaHandler, ValidationInfo
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, core_schema

from warren_schemas.fields.arrays import Rules, array_fields


@dataclass(slots=True)
class AlignedColumns:
    """The columns of one field in one message."""

    rules: Rules
    arrays: dict[str, NDArray[Any]]
    length: int
    are_kept: bool
    """Whether all of them obey their rules."""

    def cut(self, start: int, stop: int) -> dict[str, NDArray[Any]]:
        """The part of each."""
        return {name: array[start:stop] for name, array in self.arrays.items()}

    def require_rules(self, rules: Rules) -> None:
        """Raise `ValueError` unless these are the columns' own; then they are, and need not be compared again."""
        if self.rules != rules:
            raise ValueError(f"not the span of columns of {', '.join(name for name, _ in rules)}")
        self.rules = rules


Made = tuple[dict[str, Any], None, set[str]]
"""What pydantic makes a model of: its fields, no others, and the names of those that were set."""
_NONE = AlignedColumns([], {}, 0, are_kept=True)


def _columns(info: ValidationInfo) -> AlignedColumns:
    """Outside of messages there are none."""
    context: dict[str | None, object] = info.context or {}
    columns = context.get(info.field_name)
    return columns if isinstance(columns, AlignedColumns) else _NONE


def _require(parts: dict[str, NDArray[Any]], rules: Rules) -> None:
    for name, rule in rules:
        try:
            rule.require(parts[name])
        except ValueError as error:
            raise ValueError(f"{name}: {error}") from error


class OneSpan:
    """Marks a field that holds a model whose arrays have one length, as its own validator makes sure."""

    def __get_pydantic_core_schema__(
        self, source: type[BaseModel], handler: GetCoreSchemaHandler
    ) -> CoreSchema:
        rules, others = array_fields(source), dict.fromkeys(fields_beside_arrays(source))
        names = {name for name, _ in rules}

        def model_at(span: tuple[int, int], info: ValidationInfo) -> Made:
            columns = _columns(info)
            if columns.rules is not rules:
                columns.require_rules(rules)
            start, stop = span
            if not 0 <= start <= stop <= columns.length:
                raise ValueError(f"{start}:{stop} is no span of {columns.length} entries")
            parts = columns.cut(start, stop)
            if not columns.are_kept:
                _require(parts, rules)
            return {**parts, **others}, None, names.copy()

        whole = handler(source)
        number = core_schema.int_schema(strict=True)
        fields = core_schema.with_info_after_validator_function(
            model_at, core_schema.tuple_schema([number, number])
        )
        in_span = core_schema.model_schema(source, fields, frozen=True)
        either = core_schema.union_schema(
            [(in_span, "[span]"), (whole, "[whole]")], mode="left_to_right"
        )
        return core_schema.json_or_python_schema(json_schema=either, python_schema=whole)

    def __get_pydantic_json_schema__(
        self, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        """That of the model: spans are an affair of the wire."""
        return handler(cast("core_schema.JsonOrPythonSchema", schema)["python_schema"])


def fields_beside_arrays(model: type[BaseModel]) -> list[str]:
    """Raises `TypeError` where one of them has no default of None: a span would not tell it."""
    arrays = dict(array_fields(model))
    others = {name: info for name, info in model.model_fields.items() if name not in arrays}
    if any(info.is_required() or info.default is not None for info in others.values()):
        raise TypeError(f"{model.__name__} has more than arrays: a span does not tell all of it")
    return list(others)


class SpanField(NamedTuple):
    name: str
    rules: Rules
    others: list[str]
    """What its model may say beside the arrays; where it does, it is written whole."""


@cache
def one_span_fields(model: type[object]) -> list[SpanField]:
    """The fields of a model that hold models of aligned arrays."""
    if not issubclass(model, BaseModel):
        return []
    return [
        SpanField(name, array_fields(info.annotation), fields_beside_arrays(info.annotation))
        for name, info in model.model_fields.items()
        if any(isinstance(mark, OneSpan) for mark in info.metadata)
        and isinstance(info.annotation, type)
    ]
