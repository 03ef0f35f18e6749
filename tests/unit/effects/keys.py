"""Every key of a run's config, from the schemas themselves.

`algorithm.loss.clip_low (ppo)` is a key of one of several kinds; `kind` itself is a key where there is a
choice. Under `environments` a key is one of an entry of the list, under `environments.splits` of a split.
"""

from collections.abc import Iterator
from typing import Any, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from warren_schemas.config import TrainConfig


def all_keys(model: type[BaseModel] = TrainConfig, path: str = "", kind: str = "") -> list[str]:
    """Leaves, and sections that may be left out; those of several kinds with the kind's name."""
    return list(dict.fromkeys(_keys(model, path, kind)))


def _keys(model: type[BaseModel], path: str, kind: str) -> Iterator[str]:
    for name, field in model.model_fields.items():
        if name != "kind":
            yield from _of_field(f"{path}.{name}" if path else name, field, kind)


def _of_field(key: str, field: FieldInfo, kind: str) -> Iterator[str]:
    models = list(_models(field.annotation))
    may_be_null = type(None) in get_args(field.annotation)
    if not models or may_be_null:
        yield f"{key} ({kind})" if kind else key
    if len(models) > 1:
        yield f"{key}.kind"
    for below in models:
        yield from _keys(below, key, _kind(below) if len(models) > 1 else kind)


def _models(annotation: Any) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    elif get_origin(annotation) is not None:
        for part in get_args(annotation):
            yield from _models(part)


def _kind(model: type[BaseModel]) -> str:
    return str(model.model_fields["kind"].default)
