"""The JSON schema of a run's config, for editors: keys are completed, and wrong ones are underlined.

It takes what a file may say, so a name stands for its kind here too (see `config_files`).
"""

from typing import Any, cast

from warren_schemas.config import TrainConfig


def editor_schema() -> dict[str, Any]:
    """JSON Schema, draft 2020-12."""
    schema = {"$schema": "https://json-schema.org/draft/2020-12/schema"}
    return schema | _with_short_forms(TrainConfig.model_json_schema())


def _with_short_forms(node: dict[str, Any]) -> dict[str, Any]:
    return {key: _value(value) for key, value in _widened(node).items()}


def _value(value: object) -> object:
    match value:
        case dict():
            return _with_short_forms(cast("dict[str, Any]", value))
        case list():
            return [_value(each) for each in cast("list[object]", value)]
        case _:
            return value


def _widened(node: dict[str, Any]) -> dict[str, Any]:
    """A choice of kinds, or the name of one."""
    discriminator = node.get("discriminator")
    if not isinstance(discriminator, dict) or "oneOf" not in node:
        return node
    kinds = sorted(cast("dict[str, dict[str, str]]", discriminator)["mapping"])
    rest = {key: value for key, value in node.items() if key not in ("discriminator", "oneOf")}
    return {**rest, "anyOf": [{"enum": kinds}, *node["oneOf"]]}
