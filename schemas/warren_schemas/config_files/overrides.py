"""From the text of a config file, and `a.b=c` on top of it, to a validated `TrainConfig`.

Types are strict: a number is not text and text is not a number, in the file as in an override.
"""

import json
from collections.abc import Sequence
from copy import deepcopy
from typing import Any, Literal, cast

from pydantic import ValidationError

from warren_schemas.config import TrainConfig
from warren_schemas.config_files.toml_text import TomlError, parse_toml
from warren_schemas.config_files.yaml_text import YamlError, parse_yaml
from warren_schemas.text.explain import explain
from warren_schemas.text.shorthand import expanded


class OverrideError(ValueError):
    """One override can't be applied; names it and says what to write."""


class ConfigError(ValueError):
    """The config is not valid; `lines` holds one sentence for each thing wrong."""

    def __init__(self, lines: list[str]) -> None:
        super().__init__(lines)
        self.lines = lines

    def __str__(self) -> str:
        return "\n".join(self.lines)


def load_config(
    text: str, overrides: Sequence[str] = (), *, written_in: Literal["yaml", "toml"] = "yaml"
) -> TrainConfig:
    """A run's config from the text of a file. Raises `ConfigError`."""
    parse = parse_toml if written_in == "toml" else parse_yaml
    try:
        data = expanded(_mapping(parse(text)), TrainConfig)
        for override in overrides:
            data = expanded(apply_overrides(data, [override]), TrainConfig)
        return TrainConfig.model_validate_json(_to_json(data), strict=True)
    except ValidationError as error:
        raise ConfigError(explain(error, TrainConfig)) from error
    except (TomlError, YamlError, OverrideError) as error:
        raise ConfigError([str(error)]) from error


def apply_overrides(data: dict[str, Any], overrides: Sequence[str]) -> dict[str, Any]:
    """A copy of `data` with every `a.b=c` set, in order; values are read as YAML.

    A number names an entry of a list (the one after the last adds to it); keys that are not there
    are made. Raises `OverrideError`.
    """
    data = deepcopy(data)
    for override in overrides:
        path, value = _parse(override)
        _assign(data, path, value, override)
    return data


def _mapping(data: object) -> dict[str, Any]:
    if data is None:
        return {}
    if not isinstance(data, dict):
        raise YamlError("a config consists of keys and values, such as `model: {base: NAME}`")
    return cast("dict[str, Any]", data)


def _to_json(data: dict[str, Any]) -> str:
    try:
        return json.dumps(data, default=str)
    except (TypeError, ValueError, RecursionError) as error:
        raise YamlError(f"a config is made of text, numbers and lists: {error}") from error


def _parse(override: str) -> tuple[list[str], object]:
    path, equals, text = override.partition("=")
    parts = [part.strip() for part in path.split(".")]
    if not equals or not all(parts):
        raise OverrideError(f"{override!r}: write KEY=VALUE, such as sampling.temperature=0.7")
    if text.startswith("@"):  # how uploaded base models are named, and no value of YAML begins
        return parts, text
    try:
        return parts, parse_yaml(text)
    except YamlError as error:
        raise OverrideError(f"{override!r}: {text!r} is not a YAML value: {error}") from error


def _assign(data: dict[str, Any], path: list[str], value: object, override: str) -> None:
    *parents, last = path
    here: dict[Any, Any] | list[Any] = data
    for depth, part in enumerate(parents, start=1):
        key = _key(here, part, override)
        if here[key] is None:
            here[key] = {}
        if not isinstance(here[key], dict | list):
            place = ".".join(path[:depth])
            raise OverrideError(f"{override!r}: {place} is {here[key]!r} and has no keys below it")
        here = cast("dict[Any, Any] | list[Any]", here[key])
    here[_key(here, last, override)] = value


def _key(here: dict[Any, Any] | list[Any], part: str, override: str) -> Any:
    """The key or index, with something to replace behind it."""
    if isinstance(here, dict):
        here.setdefault(part, None)
        return part
    if not part.isdecimal() or int(part) > len(here):
        raise OverrideError(
            f"{override!r}: {part} is no entry of a list of {len(here)}; write 0 to {len(here)}"
        )
    if int(part) == len(here):
        here.append(None)
    return int(part)
