"""How environments are served: limits, and a file with what differs from environment to environment."""

from pathlib import Path

from pydantic import Field, JsonValue, TypeAdapter, ValidationError

from warren.errors import ConfigurationError
from warren_schemas.base import Frozen, Listed
from warren_schemas.config.numbers import Name, NonNegativeInt, PositiveFloat, PositiveInt
from warren_schemas.config_files.yaml_text import YamlError, parse_yaml
from warren_schemas.text.explain import explain


class OrsServerSettings(Frozen):
    host: str = "127.0.0.1"
    """Address to listen at."""
    port: NonNegativeInt = 8643
    """Port to listen at; 0 takes a free one."""
    api_key: str | None = None
    """Key that requests must bring as `X-API-Key`; without one, everybody may ask who reaches the address."""
    settings: Path | None = None
    """YAML file with settings by name of the environment: config, max_turns, splits, n_tasks."""
    seed: NonNegativeInt = 0
    """Seed of the tasks of environments that make their own."""
    idle_s: PositiveFloat = 900.0
    """How long a session may be silent before it is ended, in seconds."""


class Served(Frozen):
    """How one environment is served."""

    config: dict[str, JsonValue] = Field(default_factory=dict)
    """Passed to the environment's constructor."""
    max_turns: PositiveInt = 32
    """Calls of an episode; longer ones are truncated."""
    splits: Listed[Name] = ()
    """The splits that are listed; those that the environment names itself, else train and test."""
    n_tasks: PositiveInt = 1000
    """Tasks of each split, where the environment makes its own from a seed."""


_FILE = TypeAdapter(dict[str, Served])


def served_by_name(path: Path | None) -> dict[str, Served]:
    """Raises `ConfigurationError`."""
    if path is None:
        return {}
    try:
        found = parse_yaml(path.read_text(encoding="utf-8"))
        return _FILE.validate_python({} if found is None else found)
    except OSError as error:
        raise ConfigurationError(f"{path} can't be read: {error.strerror}", hint=_HINT) from error
    except ValidationError as error:
        wrong = explain(error)
        raise ConfigurationError(f"{path} can't be used", details=wrong, hint=_HINT) from error
    except (YamlError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"{path} is not valid YAML: {error}", hint=_HINT) from error


_HINT = "docs/ors-server.md shows such a file."
