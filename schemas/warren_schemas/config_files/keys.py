"""A config as keys and values, each on its own: `sampling.temperature`, `environments.0.name`.

Rule: the keys are those that `--set` takes.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, cast, get_origin

from pydantic import BaseModel, JsonValue
from pydantic.fields import FieldInfo

_NONE = object()
"""The default of what must be said."""


@dataclass(frozen=True, slots=True)
class ConfigKey:
    path: str
    value: JsonValue
    is_set: bool
    """False where nobody wrote it."""
    is_default: bool
    """Whether it has the value that it would have if nobody wrote it."""


def keys_of(config: BaseModel) -> Iterator[ConfigKey]:
    """All of them, in the order of the schema."""
    dumped = cast("dict[str, JsonValue]", config.model_dump(mode="json"))
    return _below("", config, dumped, _NONE, is_set=True)


def _below(
    path: str, value: object, dumped: JsonValue, default: object, *, is_set: bool
) -> Iterator[ConfigKey]:
    if isinstance(value, BaseModel) and isinstance(dumped, dict):
        for name, field in type(value).model_fields.items():
            yield from _below(
                _joined(path, name),
                getattr(value, name),
                dumped[name],
                _default(value, default, name, field),
                is_set=is_set and name in value.model_fields_set,
            )
    elif isinstance(value, Mapping) and isinstance(dumped, dict) and dumped:
        entries = cast("Mapping[str, object]", value)
        for name, below in dumped.items():
            yield from _below(_joined(path, name), entries[name], below, _NONE, is_set=is_set)
    elif isinstance(dumped, list) and any(isinstance(each, dict) for each in dumped):
        entries = zip(cast("Sequence[object]", value), dumped, strict=True)
        for number, (each, below) in enumerate(entries):
            yield from _below(_joined(path, str(number)), each, below, _NONE, is_set=is_set)
    else:
        yield ConfigKey(path, dumped, is_set, is_default=value == default)


def _default(value: BaseModel, default: object, name: str, field: FieldInfo) -> object:
    """Of a field of `value`, in whose place `default` would stand. Where that is of another kind, the kind was chosen, though it is
    the default of its own field."""
    if type(default) is type(value):
        return getattr(default, name)
    if isinstance(default, BaseModel) and get_origin(field.annotation) is Literal:
        return getattr(default, name, _NONE)
    if field.is_required():
        return _NONE
    return cast("object", field.get_default(call_default_factory=True, validated_data={}))


def _joined(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


@dataclass(frozen=True, slots=True)
class Difference:
    path: str
    a: JsonValue
    """None too where the other config alone has such a key."""
    b: JsonValue


def differences(a: BaseModel, b: BaseModel) -> list[Difference]:
    """The keys that have other values in one than in the other."""
    ours = {key.path: key.value for key in keys_of(a)}
    theirs = {key.path: key.value for key in keys_of(b)}
    return [
        Difference(path, ours.get(path), theirs.get(path))
        for path in dict.fromkeys((*ours, *theirs))
        if ours.get(path) != theirs.get(path)
    ]
