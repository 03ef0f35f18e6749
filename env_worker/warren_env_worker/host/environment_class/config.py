"""Configs of environments, held against the constructor that will get them."""

import inspect
from collections.abc import Mapping
from inspect import Parameter
from typing import Any, NotRequired, Required, get_type_hints

from pydantic import ConfigDict, TypeAdapter, ValidationError, with_config
from typing_extensions import TypedDict

from warren.environment import Env
from warren_env_worker.host.protocol import Config
from warren_env_worker.host.refusal import config_refusal
from warren_schemas.text.explain import explain, nearest

_NAMED = (Parameter.POSITIONAL_OR_KEYWORD, Parameter.KEYWORD_ONLY)


class ConfigSchema:
    """Names, types and defaults of a constructor's parameters."""

    def __init__(self, environment: type[Env[Any]]) -> None:
        parameters = inspect.signature(environment).parameters.values()
        self._names = [p.name for p in parameters if p.kind in _NAMED]
        self._is_open = any(p.kind is Parameter.VAR_KEYWORD for p in parameters)
        self._adapter = _adapter([p for p in parameters if p.kind in _NAMED], _hints(environment))

    def check(self, config: Config) -> Config:
        """The arguments for the constructor. Raises `Refusal` with what is wrong in one line."""
        unknown = [] if self._is_open else [key for key in config if key not in self._names]
        if unknown:
            raise config_refusal("; ".join(self._unknown(key) for key in unknown))
        try:
            return self._adapter.validate_python(config)
        except ValidationError as error:
            raise config_refusal("; ".join(explain(error))) from error

    def _unknown(self, key: str) -> str:
        match = nearest(key, self._names)
        if match:
            return f"{key}: unknown key; did you mean {match}?"
        return f"{key}: unknown key; valid keys: {', '.join(self._names) or 'none'}"


def _adapter(parameters: list[Parameter], hints: Mapping[str, object]) -> TypeAdapter[Config]:
    fields = {
        p.name: (Required if p.default is p.empty else NotRequired)[hints.get(p.name, object)]
        for p in parameters
    }
    schema: Any = TypedDict("Arguments", fields)  # pyright: ignore
    settings = ConfigDict(extra="allow", arbitrary_types_allowed=True)
    return TypeAdapter(with_config(settings)(schema))


def _hints(environment: type[Env[Any]]) -> Mapping[str, object]:
    try:
        return get_type_hints(environment.__init__, include_extras=True)
    except NameError:  # a name that only type checkers see
        return {}
