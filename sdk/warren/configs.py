"""Configs as users have them: a `TrainConfig`, a plain dict, or a YAML file."""

from collections.abc import Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import TypeAlias

from pydantic import ValidationError

from warren.errors import ConfigurationError
from warren_schemas.config import TrainConfig
from warren_schemas.config_files.overrides import ConfigError, load_config
from warren_schemas.text.explain import explain, nearest
from warren_schemas.text.shorthand import expanded

ConfigLike: TypeAlias = "TrainConfig | Mapping[str, object] | str | PathLike[str]"


def to_config(config: ConfigLike) -> TrainConfig:
    """The config itself, validated. Raises `ConfigurationError`, one line for each thing wrong."""
    if isinstance(config, TrainConfig):
        return config
    if isinstance(config, str | PathLike):
        return read_config(Path(config))
    try:
        return TrainConfig.model_validate(expanded(config, TrainConfig))
    except ValidationError as error:
        raise _invalid("The config", explain(error, TrainConfig)) from error


def read_config(path: Path, overrides: Sequence[str] = ()) -> TrainConfig:
    """A YAML file with `a.b=c` overrides on top. Raises `ConfigurationError`."""
    text = _read(path)
    try:
        return load_config(text, overrides)
    except ConfigError as error:
        raise _invalid(str(path), error.lines) from error


def _read(path: Path) -> str:
    try:
        return path.expanduser().read_text(encoding="utf-8")
    except FileNotFoundError:
        raise ConfigurationError(f"There is no file {path}", hint=_other_file(path)) from None
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is no UTF-8 text"
        raise ConfigurationError(
            f"Can't read {path}: {reason}", hint="Give a YAML file; see examples/guess.yaml."
        ) from error


def _other_file(path: Path) -> str:
    try:
        there = [p.name for p in path.parent.iterdir() if p.suffix in (".yaml", ".yml")]
    except OSError:
        return f"The folder {path.parent} is not there either; check the path."
    match = nearest(path.name, there)
    if match:
        return f"Did you mean {path.parent / match}?"
    return "Check the path; examples/guess.yaml shows what a config looks like."


def _invalid(place: str, lines: Sequence[str]) -> ConfigurationError:
    return ConfigurationError(
        f"{place} is no valid run config",
        details=lines,
        hint="Fix the mistakes above and try again; examples/guess.yaml is a commented config.",
    )
