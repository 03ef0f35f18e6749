"""From `module:Class` to an environment class, or one line that says why not."""

import importlib
from typing import Any, cast, get_args

from warren.environment import Env, Isolation, Limits
from warren.games import environment_of, is_game
from warren_env_worker.host.refusal import one_line, place
from warren_schemas.text.explain import nearest


class ImportFailed(Exception):
    """The environment can't be had; the text is for a person."""


def import_environment(reference: str) -> type[Env[Any]]:
    """Raises `ImportFailed`."""
    module_name, _, class_name = reference.partition(":")
    try:
        module = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        raise ImportFailed(_not_found(module_name, error)) from error
    except BaseException as error:  # user code may raise anything
        package = module_name.partition(".")[0]
        reason = f"importing {module_name} failed: {one_line(error)} ({place(error, package)})"
        raise ImportFailed(reason) from error
    if not hasattr(module, class_name):
        raise ImportFailed(_no_class(class_name, module_name, vars(module)))
    return _environment(getattr(module, class_name), reference)


def _environment(found: object, reference: str) -> type[Env[Any]]:
    if is_game(found):
        return environment_of(found)
    if not (isinstance(found, type) and issubclass(found, Env)):
        raise ImportFailed(
            f"{reference} is no environment: it must be a subclass of warren.Env, or a"
            " class with reset, step, get_system_prompt and get_initial_user_message"
        )
    environment = cast("type[Env[Any]]", found)
    missing: frozenset[str] = getattr(environment, "__abstractmethods__", frozenset())
    if missing:
        raise ImportFailed(f"{reference} lacks {', '.join(f'{m}()' for m in sorted(missing))}")
    for attribute, kind in (("name", str), ("version", str), ("limits", Limits)):
        value: object = getattr(environment, attribute)
        if not isinstance(value, kind):
            raise ImportFailed(
                f"{reference}.{attribute} must be of type {kind.__name__};"
                f" it is of type {type(value).__name__}"
            )
    if environment.isolation not in (None, *get_args(Isolation)):
        known = ", ".join(get_args(Isolation))
        raise ImportFailed(
            f"{reference}.isolation is {environment.isolation!r}; it must be one of {known}, or None"
        )
    return environment


def _not_found(module: str, error: ModuleNotFoundError) -> str:
    if error.name is not None and (module == error.name or module.startswith(f"{error.name}.")):
        return f"there is no module {module}; install it, or start in the folder that holds it"
    return f"importing {module} failed: it needs the module {error.name}, which is not installed"


def _no_class(class_name: str, module: str, names: dict[str, object]) -> str:
    match = nearest(class_name, (name for name, value in names.items() if isinstance(value, type)))
    return f"{module} has no {class_name}" + (f"; did you mean {match}?" if match else "")
