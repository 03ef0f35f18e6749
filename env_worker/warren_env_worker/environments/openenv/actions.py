"""How the policy's words become an action of an OpenEnv environment, by the schema of its actions.

words    the action is a text: one field that must be given, or the one that the config names
a tool   the action is offered as a tool, whose arguments are the action's fields
tools    the environment has tools of its own (MCP), and an action is a call of one
"""

from collections.abc import Mapping, Sequence
from typing import Any, cast

from warren.environment import ConfigError
from warren_env_worker.environments.openenv.answers import METADATA
from warren_env_worker.environments.tool_calls import ReadCall, ToolSpec

LIST_TOOLS: Mapping[str, object] = {"type": "list_tools"}
ACT = "act"
"""What an action is called as a tool, unless the config says otherwise."""


class Actions:
    def __init__(self, schema: Mapping[str, Any], field: str | None, tool: str | None) -> None:
        """`field` takes the words; `tool` is the action's name as a tool. Raises `ConfigError`."""
        properties = cast("dict[str, Any]", schema.get("properties", {}))
        takes_calls = {"tool_name", "arguments"} <= set(properties)
        if takes_calls and tool is not None:
            raise ConfigError(
                f"action_tool: the environment has tools of its own, which {tool} would hide; leave it out"
            )
        self._schema = schema
        self._fields = {name: how for name, how in properties.items() if name != METADATA}
        self.has_tools = field is None and takes_calls
        """They must be asked for."""
        self.field = None if tool is not None else field or self._text_field()
        """That takes the words; None where words call tools."""
        if field is not None and field not in self._fields:
            raise ConfigError(
                f"action_field: an action has no field {field}; it has {', '.join(self._fields)}"
            )
        self._tool = tool or ACT

    def tools(self, of_environment: Sequence[ToolSpec]) -> Sequence[ToolSpec]:
        """What the policy is told of."""
        if self.has_tools:
            return of_environment
        return [] if self.field is not None else [self._as_tool()]

    def of_words(self, words: str) -> dict[str, object]:
        assert self.field is not None
        return {self.field: words}

    def of_call(self, call: ReadCall) -> dict[str, object]:
        if self.has_tools:
            return {"type": "call_tool", "tool_name": call.name, "arguments": call.arguments}
        return call.arguments

    def _text_field(self) -> str | None:
        """The one field that takes a text and must be given, or the one that there is."""
        if self.has_tools:
            return None
        required = [name for name in self._schema.get("required", ()) if name in self._fields]
        named = required or list(self._fields)
        if len(named) != 1 or self._fields[named[0]].get("type") != "string":
            return None
        return None if "enum" in self._fields[named[0]] else named[0]

    def _as_tool(self) -> ToolSpec:
        kept = {key: value for key, value in self._schema.items() if key != "description"}
        return ToolSpec(
            name=self._tool,
            description=self._schema.get("description"),
            input_schema={**kept, "properties": self._fields},
        )
