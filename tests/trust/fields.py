"""Every field of a config that takes a text of the tenant's choosing, from the schemas themselves.

Those are the fields that can name something: a file, a URL, a module, a program, a variable, a queue, a
model, a run. Choices from a list and numbers can't.
"""

import pkgutil
from collections.abc import Iterator
from importlib import import_module
from inspect import isabstract
from typing import Any, Literal, get_args, get_origin, get_type_hints

from pydantic import BaseModel

from warren.environment import Env
from warren_env_worker import environments
from warren_schemas.config import TrainConfig


def text_fields() -> set[str]:
    """Of a config, and of what the environments that come with Warren take as theirs."""
    found = set(_of_model(TrainConfig, ""))
    for environment in _environments():
        hints = get_type_hints(environment.__init__)
        for name, hint in hints.items():
            if name != "return":
                found |= set(_of(hint, f"environments.config.{environment.name}.{name}"))
    return found


def _environments() -> list[type[Env[Any]]]:
    modules = [
        import_module(module.name)
        for module in pkgutil.walk_packages(environments.__path__, f"{environments.__name__}.")
    ]
    return [
        value
        for module in modules
        for value in vars(module).values()
        if isinstance(value, type)
        and not isabstract(value)
        and issubclass(value, Env)
        and value.__module__ == module.__name__
    ]


def _of_model(model: type[BaseModel], path: str) -> Iterator[str]:
    for name, field in model.model_fields.items():
        yield from _of(field.annotation, f"{path}.{name}" if path else name)


def _of(annotation: Any, path: str) -> Iterator[str]:
    if annotation is str or annotation is Any or "JsonValue" in repr(annotation):
        yield path
    elif get_origin(annotation) is Literal:
        return
    elif isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield from _of_model(annotation, path)
    else:
        for part in get_args(annotation):
            yield from _of(part, path)
