"""What an OpenEnv server answers, checked at the border. Keys that we don't know are passed over: servers add some."""

import json
from collections.abc import Sequence
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, FiniteFloat, JsonValue, TypeAdapter

from warren_env_worker.environments.tool_calls import ToolSpec
from warren_env_worker.permissions.secrets import shortened, without_run_secrets

MAX_TOLD_CHARS = 500
METADATA = "metadata"
_JSON = json.JSONEncoder(ensure_ascii=False)
"""Made once: `json.dumps` with such an option makes one for each value."""
NOTHING = "(nothing)"


class _Answer(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True)


class Schema(_Answer):
    action: dict[str, Any]
    """JSON schema."""


class ToolError(_Answer):
    message: str


class Observed(_Answer):
    observation: dict[str, JsonValue]
    reward: FiniteFloat | None = None
    """None gives no reward at this step, which is not a reward of 0."""
    done: bool = False

    def text(self, fields: Sequence[str]) -> str:
        """What the policy is shown of it: these fields, or all but the metadata; that if there is nothing else."""
        if self.is_of_tool:
            return _text_of_tool(self.observation)
        named = [*fields] or [key for key in self.observation if key != METADATA] or [METADATA]
        values = {name: _at(self.observation, name) for name in named}
        found = {name: value for name, value in values.items() if value not in (None, "")}
        if len(found) == 1:
            return _as_text(next(iter(found.values())))
        return "\n".join(f"{name}: {_as_text(value)}" for name, value in found.items()) or NOTHING

    @property
    def is_of_tool(self) -> bool:
        return "tool_name" in self.observation and "result" in self.observation

    @property
    def tool_error(self) -> str | None:
        """Why a tool could not be called; the environment goes on."""
        error = self.observation.get("error") if self.is_of_tool else None
        return ToolError.model_validate(error).message if error is not None else None


class Tools(_Answer):
    tools: tuple[ToolSpec, ...] = ()


class Where(_Answer):
    loc: tuple[str | int, ...] = ()
    msg: str = ""


class Error(_Answer):
    message: str
    code: str
    errors: tuple[Where, ...] = ()
    """Of an action that is not of the schema."""

    @property
    def told(self) -> str:
        where = [f"{'.'.join(map(str, error.loc))}: {error.msg}" for error in self.errors]
        text = without_run_secrets("; ".join(where or [self.message]))
        return shortened(" ".join(text.split()), MAX_TOLD_CHARS)


class ObservationMessage(_Answer):
    type: Literal["observation"]
    data: Observed


class ErrorMessage(_Answer):
    type: Literal["error"]
    data: Error


Message = Annotated[ObservationMessage | ErrorMessage, Field(discriminator="type")]

SCHEMA = TypeAdapter(Schema)
MESSAGE: TypeAdapter[ObservationMessage | ErrorMessage] = TypeAdapter(Message)


def _at(observation: JsonValue, path: str) -> JsonValue:
    """The field with this name, or within others: `metadata.prompt`."""
    for name in path.split("."):
        observation = observation.get(name) if isinstance(observation, dict) else None
    return observation


def _as_text(value: JsonValue) -> str:
    return value if isinstance(value, str) else _JSON.encode(value)


def _text_of_tool(observation: dict[str, JsonValue]) -> str:
    """A tool's result: the texts of its content, where it has such, or all of it."""
    result = observation["result"]
    content = result.get("content") if isinstance(result, dict) else None
    if not isinstance(content, list):
        return _as_text(result)
    texts = [text for block in content if isinstance(text := _at(block, "text"), str)]
    return "\n".join(texts) or NOTHING
