"""What a resource server answers, checked at the border. Keys that we don't know are the server's own."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    FiniteFloat,
    JsonValue,
    TypeAdapter,
    ValidationError,
)

from warren_env_worker.environments.mcp.answers import Block
from warren_env_worker.environments.tool_calls import ToolSpec


@dataclass(frozen=True, slots=True)
class Answer:
    status: int
    content: bytes

    @property
    def text(self) -> str:
        return self.content.decode(errors="replace")

    @property
    def is_error(self) -> bool:
        return self.status >= 400


class _Answer(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True)


class Verdict(_Answer):
    """Of `verify`. What the row holds comes back with it."""

    model_config = ConfigDict(extra="allow", frozen=True)

    reward: FiniteFloat
    failure: str | None = Field(default=None, alias="_ng_failure_class")
    """Nothing was judged, because a judge can't be had, say; and the reward means nothing."""
    reward_components: dict[str, FiniteFloat] | None = None

    def numbers(self, row: Mapping[str, Any]) -> dict[str, float]:
        """What the server found out besides, as far as it is numbers; and what is in the row is no news."""
        found = {**(self.model_extra or {}), **(self.reward_components or {})}
        return _numbers({name: value for name, value in found.items() if name not in row})


class ToolOutput(_Answer):
    output: str


class Info(_Answer):
    model_config = ConfigDict(extra="allow", frozen=True)

    tool_outputs: tuple[ToolOutput, ...] = ()

    @property
    def numbers(self) -> dict[str, float]:
        return _numbers(self.model_extra or {})


class Observed(_Answer):
    """Of `reset` of a `GymnasiumServer`."""

    observation: str | None = None


class Stepped(Observed):
    """Of its `step`."""

    reward: FiniteFloat = 0.0
    terminated: bool = False
    truncated: bool = False
    info: Info = Info()


def _of_a_token(name: str) -> str:
    if name.lower() in _OURS:
        raise ValueError("it is none that a server may choose")
    return name


_OURS = (
    "accept", "authorization", "connection", "content-length", "content-type", "cookie", "host", "transfer-encoding",
)  # fmt: skip
_HeaderName = Annotated[str, Field(pattern=r"^[A-Za-z0-9-]{1,64}$"), AfterValidator(_of_a_token)]
_HeaderValue = Annotated[str, Field(pattern=r"^[!-~]{1,4096}$")]


class McpAccess(_Answer):
    """Where the session's tools are, and by which headers the server knows it."""

    url_path: Annotated[str, Field(pattern=r"^/?[A-Za-z0-9_-]+(/[A-Za-z0-9_-]+)*/?$")]
    headers: dict[_HeaderName, _HeaderValue] = Field(repr=False)

    @property
    def path(self) -> str:
        return self.url_path.lstrip("/")


class Seeded(_Answer):
    mcp: McpAccess | None = None


class _McpTool(_Answer):
    name: str
    description: str | None = None
    input_schema: dict[str, Any] | None = Field(default=None, alias="inputSchema")

    @property
    def spec(self) -> ToolSpec:
        return ToolSpec(
            name=self.name, description=self.description, input_schema=self.input_schema
        )


class _Page(_Answer):
    tools: tuple[_McpTool, ...]
    next_cursor: str | None = Field(default=None, alias="nextCursor")


class _Given(_Answer):
    content: tuple[Block, ...] = ()
    structured: JsonValue = Field(default=None, alias="structuredContent")
    is_error: bool = Field(default=False, alias="isError")


class Listed(_Answer):
    result: _Page


class Called(_Answer):
    result: _Given


class _Reason(_Answer):
    message: str = ""


class Refused(_Answer):
    """By MCP: the message was none that the server takes."""

    error: _Reason


class _Where(_Answer):
    loc: tuple[str | int, ...] = ()
    msg: str = ""


class _Refusal(_Answer):
    detail: str | tuple[_Where, ...]


VERDICT = TypeAdapter(Verdict)
OBSERVED = TypeAdapter(Observed)
STEPPED = TypeAdapter(Stepped)
SEEDED = TypeAdapter(Seeded)
LISTED: TypeAdapter[Listed | Refused] = TypeAdapter(Listed | Refused)
CALLED: TypeAdapter[Called | Refused] = TypeAdapter(Called | Refused)


def reason(answer: Answer) -> str | None:
    """Why the server refuses what it was sent, in its framework's form; None if it says nothing of that form."""
    try:
        detail = _Refusal.model_validate_json(answer.content).detail
    except ValidationError:
        return None
    if isinstance(detail, str):
        return detail
    told = [f"{'.'.join(map(str, each.loc))}: {each.msg}" for each in detail]
    return "; ".join(told) or None


def _numbers(found: Mapping[str, object]) -> dict[str, float]:
    return {
        name: float(value)
        for name, value in found.items()
        if isinstance(value, int | float) and math.isfinite(value)
    }
