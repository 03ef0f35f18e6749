"""Array fields: one-dimensional numpy arrays inside pydantic models, each with a rule.

Suffix legend used by every schema: `_T` tokens of one sequence, `_N` tokens of several sequences
laid end to end, `_B` sequences.

A rule says what an array holds: its dtype and the range of its values. In a message, the arrays of
one field lie end to end in one column that has the field's name (see `columns`), and the field
holds the span of its part: `"ids_T": [0, 128]`. Columns are checked whole, once per message; only
in one that breaks its rule is each part looked at by itself, to find whose it is. Outside messages
a field takes an array of exactly the rule's dtype, or a list of numbers (tests, files by hand).

Whatever comes in leaves as a contiguous, read-only array of the rule's dtype, in range and finite.
An array is handed over: whoever still holds a writable one must not write to it any more.
"""

from dataclasses import dataclass, field
from functools import cache
from typing import Annotated, Any, cast, get_args

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, GetCoreSchemaHandler, GetJsonSchemaHandler, ValidationInfo
from pydantic.fields import FieldInfo
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, core_schema

from warren_schemas.fields.limits import MAX_KEPT

_LARGEST = float(np.finfo(np.float32).max)

Column = tuple["ArrayRule", NDArray[Any], bool]
"""All arrays of one field in one message, end to end; True where all of it obeys the rule."""


@dataclass(frozen=True, eq=False)
class ArrayRule:
    """What an array holds. A bound of None is one that the dtype already sets."""

    name: str
    holds: str
    """For error messages."""
    dtype: "np.dtype[Any]"
    low: float | None = None
    high: float | None = None
    code: str = field(init=False)
    """Of the dtype, for the header of a message: `<i4`, `|u1` or `<f4`."""
    itemsize: int = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "code", self.dtype.str)
        object.__setattr__(self, "itemsize", self.dtype.itemsize)

    def validate(self, value: object, info: ValidationInfo) -> NDArray[Any]:
        """The array that `value` stands for; raises `ValueError` that says what is wrong with it.

        The context of a validation is None, or the columns of the message by name.
        """
        context = info.context
        if context is not None:
            return self._from_span(value, context.get(info.field_name))
        if isinstance(value, np.ndarray):
            return self._from_array(cast("NDArray[Any]", value))
        return self._from_array(self._from_list(value))

    def is_kept(self, array: NDArray[Any]) -> bool:
        """True where all numbers are in range. NaN is in no range."""
        if array.size == 0:
            return True
        if self.low is not None and not array.item(array.argmin()) >= self.low:
            return False
        return self.high is None or bool(array.item(array.argmax()) <= self.high)

    def require(self, array: NDArray[Any]) -> None:
        """Raise `ValueError` with the first number that is out of range, if there is one."""
        if self.is_kept(array):
            return
        low = -np.inf if self.low is None else self.low
        high = np.inf if self.high is None else self.high
        where = int(np.argmin((array >= low) & (array <= high)))
        raise ValueError(f"expected {self.holds}, got {array[where]} at position {where}")

    def _from_span(self, span: Any, column: Any) -> NDArray[Any]:
        """Called for every array of every message: reads first and asks what went wrong after."""
        try:
            rule, array, is_sound = column
            start, stop = span
            part = array[start:stop]
            if rule is not self or not 0 <= start <= stop <= array.size:
                raise ValueError(f"{start}:{stop} of {array.size} {rule.name}")
        except (TypeError, ValueError) as error:
            raise ValueError(f"not the span of a column of {self.name}: {error}") from error
        if not is_sound:
            self.require(part)
        return part

    def _from_array(self, array: NDArray[Any]) -> NDArray[Any]:
        if array.dtype != self.dtype:
            raise ValueError(f"expected an array of {self.dtype.name}, got {array.dtype.name}")
        if array.ndim != 1:
            raise ValueError(f"expected one dimension, got {array.ndim}")
        self.require(array)
        frozen = np.ascontiguousarray(array).view()
        frozen.flags.writeable = False
        return frozen

    def _from_list(self, value: object) -> NDArray[Any]:
        exact = np.asarray(value)
        if exact.size and exact.dtype.kind not in "iuf":
            raise ValueError("expected a list of numbers")
        with np.errstate(invalid="ignore", over="ignore"):
            array = exact.astype(self.dtype)
        if self.dtype.kind != "f" and not np.array_equal(array, exact):
            raise ValueError(f"expected integers that fit {self.dtype.name}")
        return array

    def __get_pydantic_core_schema__(
        self, source: object, handler: GetCoreSchemaHandler
    ) -> CoreSchema:
        as_list = core_schema.plain_serializer_function_ser_schema(
            np.ndarray.tolist, when_used="json"
        )
        return core_schema.with_info_plain_validator_function(self.validate, serialization=as_list)

    def __get_pydantic_json_schema__(
        self, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        low, high = self.low, self.high
        if self.dtype.kind == "f":
            kind = "number"
        else:
            kind, limits = "integer", np.iinfo(self.dtype)
            low = limits.min if low is None else low
            high = limits.max if high is None else high
        bounds = {"minimum": low, "maximum": high}
        items = {"type": kind} | {key: bound for key, bound in bounds.items() if bound is not None}
        return {"type": "array", "items": items}


Rules = list[tuple[str, ArrayRule]]
"""The array fields of a model by their names."""

_INT32, _UINT8, _FLOAT32 = np.dtype("<i4"), np.dtype("u1"), np.dtype("<f4")

TokenIds = Annotated[
    NDArray[np.int32], ArrayRule("token_ids", "token ids of at least 0", _INT32, low=0)
]
Lengths = Annotated[NDArray[np.int32], ArrayRule("lengths", "lengths of at least 1", _INT32, low=1)]
Places = Annotated[NDArray[np.int32], ArrayRule("places", "places of at least 1", _INT32, low=1)]
MaskSizes = Annotated[
    NDArray[np.int32],
    ArrayRule("mask_sizes", f"sizes of 0 to {MAX_KEPT}", _INT32, low=0, high=MAX_KEPT),
]
Versions = Annotated[
    NDArray[np.int32], ArrayRule("versions", "policy versions of at least -1", _INT32, low=-1)
]
Mask = Annotated[NDArray[np.uint8], ArrayRule("mask", "only 0 and 1", _UINT8, high=1)]
Logprobs = Annotated[
    NDArray[np.float32],
    ArrayRule("logprobs", "finite logprobs of at most 0", _FLOAT32, low=-_LARGEST, high=0.0),
]
Weights = Annotated[
    NDArray[np.float32],
    ArrayRule("weights", "finite weights", _FLOAT32, low=-_LARGEST, high=_LARGEST),
]


@cache
def array_fields(model: type[object]) -> Rules:
    """The array fields of a kind of model. Raises `TypeError` for what is no model."""
    if not issubclass(model, BaseModel):
        raise TypeError(f"{model.__name__} can't travel in a message")
    rules = {name: _rule(info) for name, info in model.model_fields.items()}
    return [(name, rule) for name, rule in rules.items() if rule is not None]


def _rule(info: FieldInfo) -> ArrayRule | None:
    """The rule of an array field, also of an optional one."""
    marks = [*info.metadata, *(mark for a in get_args(info.annotation) for mark in get_args(a))]
    return next((mark for mark in marks if isinstance(mark, ArrayRule)), None)
