"""Tools of an ORS server, as the policy is told of them and as it writes their calls."""

import json
from collections.abc import Mapping
from typing import Any, cast

from warren_env_worker.environments.ors.answers import Tools, ToolSpec
from warren_schemas.chat.tool_formats import Call, Tool
from warren_schemas.text.explain import nearest

_NO_ARGUMENTS: dict[str, Any] = {"type": "object", "properties": {}}


def by_name(tools: Tools) -> dict[str, ToolSpec]:
    """Those that the policy is told of."""
    hidden = tools.terminal_tool.name if tools.terminal_tool else None
    return {tool.name: tool for tool in tools.tools if tool.name != hidden}


def as_told(spec: ToolSpec) -> Tool:
    schema = spec.input_schema or _NO_ARGUMENTS
    parameters = {key: value for key, value in schema.items() if key != "title"}
    return Tool(spec.name, spec.description, parameters)


def arguments_of(call: Call, spec: ToolSpec) -> dict[str, Any]:
    """What the policy wrote, in the types that the tool expects."""
    properties = _properties(spec)
    if call.text is not None:  # a fenced block is the first argument
        return {next(iter(properties), "text"): call.text}
    if call.is_plain:
        return {name: _typed(text, properties.get(name)) for name, text in call.arguments.items()}
    return call.arguments


def unknown(name: str, names: list[str]) -> str:
    match = nearest(name, names)
    return f"there is no tool {name!r}; " + (
        f"did you mean {match}?" if match else f"there are: {', '.join(names)}"
    )


def _properties(spec: ToolSpec) -> Mapping[str, object]:
    found: object = (spec.input_schema or {}).get("properties")
    return cast("Mapping[str, object]", found) if isinstance(found, dict) else {}


def _typed(text: str, schema: object) -> object:
    """A parameter that was written as plain text, read as JSON unless the tool takes a text."""
    if isinstance(schema, dict) and cast("dict[str, object]", schema).get("type") == "string":
        return text
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text
