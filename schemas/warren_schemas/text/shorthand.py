"""What people may write shorter: `loss: cispo` is `loss: {kind: cispo}`.

Only files, overrides and dicts are read this way; on the wire everything is spelled out.
"""

from collections.abc import Mapping
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
    match value:
        case str() if field.discriminator == "kind":
            return {"kind": value}
        case Mapping() if len(below) == 1:
            return expanded(cast("Mapping[str, Any]", value), below[0])
        case _:
            return value
