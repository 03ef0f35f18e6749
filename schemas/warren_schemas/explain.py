"""Validation errors as sentences for people: what was wrong, where, and the nearest valid key."""

from collections.abc import Iterable
from difflib import get_close_matches
from typing import cast, get_args

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails


def explain(error: ValidationError, model: type[BaseModel] | None = None) -> list[str]:
    """One line for each thing that was wrong, for example

    `algorithm.group_sise: unknown key; did you mean group_size?`

    `model` is the schema that it was held against; with it, an unknown key is answered with the
    nearest valid one.
    """
    return [_line(details, model) for details in error.errors(include_url=False)]


def nearest(word: str, known: Iterable[str]) -> str | None:
    """The known word that this one was probably meant to be."""
    matches = get_close_matches(word, list(known), n=1, cutoff=0.5)
    return matches[0] if matches else None


def _line(details: ErrorDetails, model: type[BaseModel] | None) -> str:
    place = ".".join(str(part) for part in details["loc"]) or "the whole"
    if details["type"] == "extra_forbidden":
        return f"{place}: unknown key{_did_you_mean(details, model)}"
    if details["type"] == "missing":
        return f"{place}: missing"
    message = details["msg"].removeprefix("Value error, ")
    return f"{place}: {message}"


def _did_you_mean(details: ErrorDetails, model: type[BaseModel] | None) -> str:
    *path, key = details["loc"]
    known = _fields_at(model, [str(p) for p in path]) if model is not None else set[str]()
    match = nearest(str(key), known)
    if match:
        return f"; did you mean {match}?"
    return f"; valid keys: {', '.join(sorted(known))}" if known else ""


def _fields_at(model: type[BaseModel], path: list[str]) -> set[str]:
    """Valid keys of the object at `path` below the model; all variants of a union count."""
    models: list[type[BaseModel]] = [model]
    for part in path:
        below = [m for current in models for m in _models_in(_annotation(current, part))]
        tagged = [m for m in models if _tag(m) == part]
        models = below or tagged or models
    return {name for m in models for name in m.model_fields}


def _annotation(model: type[BaseModel], field: str) -> object:
    info = model.model_fields.get(field)
    return info.annotation if info else None


def _tag(model: type[BaseModel]) -> str | None:
    info = model.model_fields.get("kind")
    return cast("str | None", info.default) if info else None


def _models_in(annotation: object) -> list[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    return [model for argument in get_args(annotation) for model in _models_in(argument)]
