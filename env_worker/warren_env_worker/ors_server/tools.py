"""The tools of an environment, and what a call of one says to it.

An environment with tools of its own has those, and its policy's plain words are the terminal tool `answer`.
One of a single turn has the terminal tool alone; any other has the tool `act`, whose argument is what its
policy says. Terminal tools are listed with the others as well, for clients that don't know such.

A call is told to the environment in the words in which a policy makes it: so what it went through can be
repeated anywhere.
"""

from dataclasses import dataclass
from typing import Any, Literal

from warren_env_worker.host.protocol import Description, Message, Observed
from warren_schemas.chat.tool_formats import MAX_CALL_CHARS, Tool, tools_prompt, write_call
from warren_schemas.config import ToolFormat
from warren_schemas.text.explain import nearest

FORM = ToolFormat.HERMES

Reason = Literal["not_found", "input_validation", "episode_finished"]


class CallRefused(Exception):
    """Said to the policy."""

    def __init__(self, detail: str, reason: Reason) -> None:
        super().__init__(detail)
        self.reason: Reason = reason


@dataclass(frozen=True, slots=True)
class _Spoken:
    """The tool that takes plain words."""

    name: str
    argument: str
    about: str
    is_terminal: bool

    @property
    def tool(self) -> Tool:
        words = {"type": "string", "description": "What you say."}
        schema = {"type": "object", "properties": {self.argument: words}}
        return Tool(self.name, self.about, schema | {"required": [self.argument]})


class Toolbox:
    def __init__(self, described: Description) -> None:
        self._own = {tool.name: tool for tool in described.tools or ()}
        self._spoken = _spoken(described)

    def listed(self) -> dict[str, object]:
        spoken = self._spoken
        terminal = {"name": spoken.name, "arg": spoken.argument, "description": spoken.about}
        return {
            "tools": [_as_listed(tool) for tool in (*self._own.values(), spoken.tool)],
            "terminal_tool": terminal if spoken.is_terminal else None,
            "supports_score_group": False,
            "message_block_types": ["text", "image"],
        }

    def action(self, name: str, given: dict[str, Any]) -> str:
        """What the call says to the environment. Raises `CallRefused`."""
        if name == self._spoken.name:
            return _words(self._spoken, given)
        if name not in self._own:
            raise CallRefused(_unknown(name, [*self._own, self._spoken.name]), "not_found")
        call = write_call(name, given, FORM)
        if len(call) > MAX_CALL_CHARS:
            what = f"{name}: a call has at most {MAX_CALL_CHARS} characters"
            raise CallRefused(what, "input_validation")
        return call

    def is_refused(self, shown: Observed, before: dict[str, float]) -> bool:
        """Whether the environment did not understand the call. Such episodes go on."""
        errors = ("tool_errors", "parse_errors")
        return (
            bool(self._own)
            and not shown.is_over
            and any(shown.metrics.get(e, 0.0) > before.get(e, 0.0) for e in errors)
        )

    def without_tools(self, messages: list[Message]) -> list[Message]:
        """The first observation, without the tools: clients tell their policies of those themselves."""
        if not self._own or not messages or messages[0][0] != "system":
            return messages
        told = tools_prompt(list(self._own.values()), FORM)
        parts = (part.strip() for part in messages[0][1].split(told))
        rest = "\n\n".join(part for part in parts if part)
        return [("system", rest), *messages[1:]] if rest else messages[1:]


def _spoken(described: Description) -> _Spoken:
    if described.tools is None and not described.is_single_turn:
        about = "Say this to the environment: all of your turn, as it expects it."
        return _Spoken("act", "action", about, is_terminal=False)
    return _Spoken(
        "answer", "text", "Your answer in plain words, when you are done.", is_terminal=True
    )


def _as_listed(tool: Tool) -> dict[str, object]:
    about = " ".join((tool.about or "").split())
    return {"name": tool.name, "description": about, "input_schema": tool.parameters}


def _words(spoken: _Spoken, given: dict[str, Any]) -> str:
    words = given.get(spoken.argument)
    if not isinstance(words, str) or len(given) > 1:
        what = f"{spoken.name} takes one text, {spoken.argument}"
        raise CallRefused(what, "input_validation")
    return words


def _unknown(name: str, names: list[str]) -> str:
    match = nearest(name, names)
    return f"there is no tool {name!r}; " + (
        f"did you mean {match}?" if match else f"there are: {', '.join(names)}"
    )
