"""What of a model stands apart from its JSON in a message: arrays, lists that grow, and what is at its default.

Invariant: what is written follows from the values alone, and says all of them.
"""

from dataclasses import dataclass
from functools import cache
from typing import Any

from pydantic import BaseModel

from warren_schemas.fields.arrays import Rules, array_fields
from warren_schemas.fields.growing_lists import GrowsInMessages, growing_fields
from warren_schemas.fields.non_defaults import default_values, unique_defaults
from warren_schemas.fields.one_span import SpanField, one_span_fields


@dataclass(frozen=True, slots=True)
class Apart:
    """Of one kind of model, its fields of each sort by name."""

    arrays: Rules
    spans: list[SpanField]
    lists: list[tuple[str, GrowsInMessages]]
    defaults: list[tuple[str, object]]
    models: list[tuple[str, dict[str, object]]]

    def without_defaults(self, model: BaseModel) -> dict[str, Any]:
        """The fields of a model that are not at their defaults, as far as that is told at a look (see `non_defaults`)."""
        fields = dict(model.__dict__)
        for name, default in self.defaults:
            if fields[name] is default:
                del fields[name]
        for name, said in self.models:
            if fields[name].__dict__ == said:
                del fields[name]
        return fields


@cache
def apart_of(kind: type[object]) -> Apart | None:
    """None where nothing stands apart. Raises `TypeError` for what is no model."""
    if not issubclass(kind, BaseModel):
        raise TypeError(f"{kind.__name__} can't travel in a message")
    arrays, spans, lists = array_fields(kind), one_span_fields(kind), growing_fields(kind)
    if not (arrays or spans or lists):
        return None
    defaults, models = unique_defaults(kind), default_values(kind)
    return Apart(arrays, spans, lists, [*defaults.items()], [*models.items()])
