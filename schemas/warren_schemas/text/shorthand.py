"""What people may write shorter: `loss: cispo` is `loss: {kind: cispo}`.

Only files, overrides and dicts are read this way; on the wire everything is spelled out.
"""

from collections.abc import Mapping, Sequence
from typing import Any, cast

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from warren_schemas.text.error_paths import models_in


def expanded(data: Mapping[str, Any], model: type[BaseModel]) -> dict[str, Any]:
    """A copy with `{kind: name}` where the schema has a choice of kinds and a name is given."""
    fields = model.model_fields
    return {
        key: _expanded(value, fields[key]) if key in fields else value
        for key, value in data.items()
    }


def _expanded(value: object, field: FieldInfo) -> object:
    below = models_in(field.annotation)
    if isinstance(value, list | tuple):
        return [_item(each, below) for each in cast("Sequence[object]", value)]
    if isinstance(value, str):
        return {"kind": value} if field.discriminator == "kind" else value
    return _item(value, below)


def _item(value: object, below: Sequence[type[BaseModel]]) -> object:
    """What stands by itself, or in a list, of which the entries may be of several kinds, too."""
    if isinstance(value, str):
        return {"kind": value} if below and all(map(_kind_of, below)) else value
    if not isinstance(value, Mapping):
        return value
    given = cast("Mapping[str, Any]", value)
    chosen = [m for m in below if len(below) == 1 or _kind_of(m) == given.get("kind")]
    return expanded(given, chosen[0]) if chosen else given


def _kind_of(model: type[BaseModel]) -> str | None:
    kind = model.model_fields.get("kind")
    return None if kind is None else str(kind.default)
