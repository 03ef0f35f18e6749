"""Models of arrays that have one length: in a message they share one span.

Their arrays lie in columns, one after another in the order of the model, under one entry of the header, and the field
holds the span of all of them: `"tokens": [0, 128]`. So four arrays cost little more than one. A model of which anything
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


@dataclass(frozen=True, eq=False, slots=True)
class Layout:
    """The columns of a kind of model."""

    name: str
    """Of the model."""
    code: str
    """The codes of the dtypes, one after another, as in `<i4|u1<f4<i4`."""
    rules: Rules
    others: list[str]
    """What the model may say beside its arrays; where it does, it is written whole."""

    def tells_all(self, values: dict[str, Any]) -> bool:
        """Whether nothing beside the arrays is said; a generator would cost as much as the arrays."""
        for name in self.others:  # noqa: SIM110
            if values[name] is not None:
                return False
        return True


LAYOUTS: dict[str, Layout] = {}
"""Of every model that is marked by `OneSpan`, by name. Written by `layout_of` alone."""


@cache
def layout_of(model: type[BaseModel]) -> Layout:
    """Raises `TypeError` where a field beside the arrays has no default of None, or another model has the name."""
    rules = array_fields(model)
    others = {n: info for n, info in model.model_fields.items() if n not in dict(rules)}
    if any(info.is_required() or info.default is not None for info in others.values()):
        raise TypeError(f"{model.__name__} has more than arrays: a span does not tell all of it")
    code = "".join(rule.code for _, rule in rules)
    layout = Layout(model.__name__, code, rules, list(others))
    if LAYOUTS.setdefault(layout.name, layout) is not layout:
        raise TypeError(f"two models of arrays have the name {layout.name}")
    return layout


@dataclass(slots=True)
class AlignedColumns:
    """The columns of one field in one message."""

    layout: Layout
    arrays: dict[str, NDArray[Any]]
    length: int
    are_kept: bool
    """Whether all of them obey their rules."""

    def cut(self, start: int, stop: int) -> dict[str, NDArray[Any]]:
        """The part of each."""
        return {name: array[start:stop] for name, array in self.arrays.items()}


Made = tuple[dict[str, Any], None, set[str]]
"""What pydantic makes a model of: its fields, no others, and the names of those that were set."""


def _columns(layout: Layout, info: ValidationInfo) -> AlignedColumns:
    """Outside of messages there are none."""
    context: dict[str | None, object] = info.context or {}
    columns = context.get(info.field_name)
    if isinstance(columns, AlignedColumns) and columns.layout is layout:
        return columns
    raise ValueError(f"not the span of columns of {layout.name}")


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
        layout = layout_of(source)
        names, others = {name for name, _ in layout.rules}, dict.fromkeys(layout.others)

        def model_at(span: tuple[int, int], info: ValidationInfo) -> Made:
            columns = _columns(layout, info)
            start, stop = span
            if not 0 <= start <= stop <= columns.length:
                raise ValueError(f"{start}:{stop} is no span of {columns.length} entries")
            parts = columns.cut(start, stop)
            if not columns.are_kept:
                _require(parts, layout.rules)
            return parts | others, None, names.copy()

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


class SpanField(NamedTuple):
    name: str
    layout: Layout


@cache
def one_span_fields(model: type[object]) -> list[SpanField]:
    """The fields of a model that hold models of aligned arrays."""
    if not issubclass(model, BaseModel):
        return []
    return [
        SpanField(name, layout_of(info.annotation))
        for name, info in model.model_fields.items()
        if any(isinstance(mark, OneSpan) for mark in info.metadata)
        and isinstance(info.annotation, type)
    ]
