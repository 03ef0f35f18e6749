"""Arguments of a config that go to code of a foreign package."""

from collections.abc import Iterable, Mapping

from pydantic import JsonValue

from warren.environment import ConfigError
from warren_env_worker.permissions.permissions import current


def require_plain(arguments: Iterable[Mapping[str, JsonValue]]) -> None:
    """Under an operator's policy they hold nothing that could name code: numbers and texts alone. Raises `ConfigError`."""
    values = [value for given in arguments for value in given.values()]
    if not current().is_trusted and any(isinstance(value, dict | list) for value in values):
        raise ConfigError("arguments: this env worker's operator allows numbers and texts alone")
