"""Array fields: one-dimensional numpy arrays inside pydantic models.

Suffix legend used by every schema: `_T` tokens of one sequence, `_N` tokens of several sequences
laid end to end, `_B` sequences.

On the wire an array is a slot number in the JSON header plus raw little-endian bytes after it (see
`wire`). The validator below accepts that slot (resolved through the validation context), a numpy
array of the right kind, or, for people who write tests and files by hand, a list of numbers.
Whatever comes in leaves as a contiguous, read-only array of exactly the declared dtype.
"""

from collections.abc import Sequence
from typing import Annotated, Any, cast

import numpy as np
from numpy.typing import NDArray
from pydantic import PlainSerializer, PlainValidator, ValidationInfo, WithJsonSchema

SLOT = "$array"
"""The JSON key that stands for an array that travels behind the header."""


def _resolve(value: object, info: ValidationInfo, dtype: "np.dtype[Any]") -> NDArray[Any]:
    if isinstance(value, dict):
        context = cast("dict[str, Sequence[NDArray[Any]]]", info.context or {})
        slots = context.get("arrays", ())
        slot = cast("dict[str, object]", value).get(SLOT)
        if type(slot) is not int or not 0 <= slot < len(slots):
            raise ValueError(f"expected an array slot from 0 to {len(slots) - 1}, got {slot!r}")
        value = slots[slot]
    if isinstance(value, np.ndarray):
        array = cast("NDArray[Any]", value)
        if array.dtype != dtype:
            raise ValueError(f"expected an array of {dtype.name}, got {array.dtype.name}")
    else:
        array = np.asarray(value, dtype=dtype)
    if array.ndim != 1:
        raise ValueError(f"expected one dimension, got {array.ndim}")
    return array


def _frozen(array: NDArray[Any]) -> NDArray[Any]:
    if array.flags.writeable:
        array = array.view()
        array.flags.writeable = False
    return array


def _integers(dtype: "np.dtype[Any]") -> PlainValidator:
    def validate(value: object, info: ValidationInfo) -> NDArray[Any]:
        return _frozen(_resolve(value, info, dtype))

    return PlainValidator(validate)


def _floats(value: object, info: ValidationInfo) -> NDArray[Any]:
    array = _resolve(value, info, np.dtype("<f4"))
    if not np.isfinite(array).all():
        where = int(np.flatnonzero(~np.isfinite(array))[0])
        raise ValueError(f"expected finite numbers, got {array[where]} at position {where}")
    return _frozen(array)


def _to_list(array: NDArray[Any]) -> list[Any]:
    return array.tolist()


_AS_LIST = PlainSerializer(_to_list, when_used="json")
_SCHEMA = WithJsonSchema({"type": "array", "items": {"type": "number"}})

Int32Array = Annotated[NDArray[np.int32], _integers(np.dtype("<i4")), _AS_LIST, _SCHEMA]
UInt8Array = Annotated[NDArray[np.uint8], _integers(np.dtype("<u1")), _AS_LIST, _SCHEMA]
Float32Array = Annotated[NDArray[np.float32], PlainValidator(_floats), _AS_LIST, _SCHEMA]
