"""Places in a schema: from where pydantic says an error is to the keys that a person wrote."""

from collections.abc import Iterator, Sequence
from typing import Literal, NamedTuple, get_args, get_origin

from pydantic import BaseModel

_PLAIN = ("str", "int", "float", "bool")


class Place(NamedTuple):
    """A path of keys and list positions, and the schemas that the value there may have."""

    path: tuple[str, ...]
    models: list[type[BaseModel]]

    @property
    def keys(self) -> set[str]:
        """Valid keys of the object at this place; all variants of a union count."""
        return {name for model in self.models for name in model.model_fields}

    @property
    def tags(self) -> list[str]:
        """What tells the variants of a union here apart."""
        return [tag for model in self.models for tag in _tags(model)]


def locate(model: type[BaseModel] | None, loc: Sequence[str | int]) -> Place:
    """Follow pydantic's location through the schema, leaving out its names for union variants."""
    place = Place((), [model] if model else [])
    for part in loc:
        place = _step(place, part)
    return place


def is_place(model: type[BaseModel] | None, dotted: str) -> bool:
    """Whether there is such a key in the schema."""
    *parents, key = dotted.split(".")
    return key in locate(model, parents).keys


def places_of(model: type[BaseModel], key: str) -> Iterator[str]:
    """Every dotted place below the model where this key is valid, shortest first."""
    level = {"": model}
    while level:
        yield from (f"{prefix}{key}" for prefix, m in level.items() if key in m.model_fields)
        level = {
            f"{prefix}{name}.": child
            for prefix, m in level.items()
            for name, info in m.model_fields.items()
            for child in models_in(info.annotation)
        }


def _step(place: Place, part: str | int) -> Place:
    path, models = place
    if isinstance(part, int):
        return Place((*path, str(part)), models)
    fields = [m.model_fields[part] for m in models if part in m.model_fields]
    if fields:
        return Place((*path, part), [m for f in fields for m in models_in(f.annotation)])
    tagged = [m for m in models if part in _tags(m)]
    if tagged:
        return Place(path, tagged)
    if "[" in part or part.removeprefix("constrained-") in _PLAIN:
        return place  # a variant that is no model, such as `tuple[str, ...]`
    return Place((*path, part), [])


def _tags(model: type[BaseModel]) -> list[str]:
    annotations = [info.annotation for info in model.model_fields.values()]
    constants = [get_args(a) for a in annotations if get_origin(a) is Literal]
    return [values[0] for values in constants if len(values) == 1]


def models_in(annotation: object) -> list[type[BaseModel]]:
    """The models that a value of this annotation may be, or hold."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    return [model for argument in get_args(annotation) for model in models_in(argument)]
