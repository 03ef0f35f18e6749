"""What a model says beyond its defaults: what is at its default is told by its absence.

A field that has one value only, such as the `kind` by which a union is told apart, is always told.
"""

from functools import cache
from typing import Any, Literal, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from warren_schemas.fields.arrays import array_fields

_KINDS = (bool, int, str, tuple)


def non_defaults(model: BaseModel) -> dict[str, Any]:
    """The fields that are not at their defaults."""
    required, optional = _fields(type(model))
    values = model.__dict__
    fields = {name: values[name] for name in required}
    for name, default in optional.items():
        if (value := values[name]) != default:
            fields[name] = value
    return fields


@cache
def unique_defaults(kind: type[BaseModel]) -> dict[str, object]:
    """By field, the defaults that Python has one object of: None, truth values, 0, 1, empty texts and tuples.

    To compare identities costs a fraction of comparing values, and says the same of these.
    """
    _, optional = _fields(kind)
    return {name: default for name, default in optional.items() if _is_unique(default)}


def _is_unique(default: object) -> bool:
    return default is None or (type(default) in _KINDS and default in (0, 1, "", ()))


@cache
def default_values(kind: type[BaseModel]) -> dict[str, dict[str, object]]:
    """By field, what the default says of a field that holds a model without arrays."""
    _, optional = _fields(kind)
    models = {
        name: default
        for name, default in optional.items()
        if isinstance(default, BaseModel) and kind.model_fields[name].annotation is type(default)
    }
    return {name: vars(model) for name, model in models.items() if not array_fields(type(model))}


@cache
def _fields(kind: type[BaseModel]) -> tuple[list[str], dict[str, Any]]:
    """Those that are always told, and the defaults of the others."""
    fields = kind.model_fields
    optional = {name: _default(info) for name, info in fields.items() if not _is_always_told(info)}
    return [name for name in fields if name not in optional], optional


def _is_always_told(info: FieldInfo) -> bool:
    is_one_value = get_origin(info.annotation) is Literal and len(get_args(info.annotation)) == 1
    return info.is_required() or is_one_value


def _default(info: FieldInfo) -> Any:
    if info.default_factory is None:
        return info.default
    return info.get_default(call_default_factory=True, validated_data={})
