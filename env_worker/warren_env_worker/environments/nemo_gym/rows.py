"""Rows of NeMo Gym's data sets: what the policy is shown of one, and what the server gets.

A row is `{"responses_create_params": {"input": …, "tools": […]}, …}`: its other keys are the server's own, and are
sent to it as they stand. Invariant: a name of a tool is one part of a path, and none of the server's own paths.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, BinaryIO, Literal, NamedTuple, cast

import orjson
from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    JsonValue,
    ValidationError,
)

from warren.environment import ChatMessage, ConfigError, Image, TaskError
from warren_env_worker.environments.tool_calls import ToolSpec
from warren_env_worker.permissions.permissions import Permissions
from warren_schemas.images import MediaType
from warren_schemas.transcript import MAX_CATEGORY_CHARS

_TOOL = re.compile(r"[A-Za-z0-9_-]{1,128}", re.ASCII)
_TAKEN = ("seed_session", "verify", "aggregate_metrics", "reset", "step", "mcp", "stats")
_DATA_URL = re.compile(r"data:(image/(?:png|jpeg|webp));base64,")
_CATEGORIES = ("category", "subject", "domain")


def _of_a_tool(name: str) -> str:
    if not _TOOL.fullmatch(name) or name in _TAKEN:
        raise ValueError(
            f"a tool's name has letters, digits, _ and -, and is none of {', '.join(_TAKEN)}"
        )
    return name


class _Part(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True, hide_input_in_errors=True)


class _Text(_Part):
    type: Literal["input_text", "output_text"]
    text: str


class _Picture(_Part):
    type: Literal["input_image"]
    image_url: str


_Block = Annotated[_Text | _Picture, Field(discriminator="type")]


def _as_blocks(content: object) -> object:
    return [{"type": "input_text", "text": content}] if isinstance(content, str) else content


class _Message(_Part):
    type: Literal["message"] = "message"
    role: Literal["user", "assistant", "system", "developer"]
    content: Annotated[tuple[_Block, ...], BeforeValidator(_as_blocks)]


def _as_messages(given: object) -> object:
    return [{"role": "user", "content": given}] if isinstance(given, str) else given


class _Tool(_Part):
    type: Literal["function"]
    name: Annotated[str, AfterValidator(_of_a_tool)]
    description: str | None = None
    parameters: dict[str, Any] | None = None


class _Params(_Part):
    input: Annotated[tuple[_Message, ...], BeforeValidator(_as_messages)]
    instructions: str | None = None
    tools: tuple[_Tool, ...] | None = None
    tool_choice: JsonValue = "auto"
    parallel_tool_calls: bool | None = True


class _Row(_Part):
    responses_create_params: _Params


class Task(NamedTuple):
    row: dict[str, Any]
    """For the server; it holds the right answer."""
    system: tuple[str, ...]
    messages: tuple[ChatMessage, ...]
    tools: tuple[ToolSpec, ...]
    leaves_tools_to_server: bool
    """It names none, and does not forbid any."""
    takes_one_call: bool
    """In a turn."""
    category: str | None

    @property
    def params(self) -> Mapping[str, Any]:
        return self.row["responses_create_params"]


def read_rows(path: str, permissions: Permissions, *, needs_prompt: bool = True) -> list[bytes]:
    """Of a file of JSON lines, each good for `task`. Raises `ConfigError` with the number of the first that is not."""
    lines = list[bytes]()
    with permissions.open_file(path) as file:
        for number, line in _lines(file):
            try:
                task(line, needs_prompt=needs_prompt)
            except TaskError as error:
                raise ConfigError(f"{path}, row {number}: {error}") from error
            lines.append(line)
    return lines


def task(line: bytes, *, needs_prompt: bool = True) -> Task:
    """`needs_prompt`: nobody else has words for the policy. Raises `TaskError`; nothing is told of what stands in the row."""
    try:
        row = orjson.loads(line)
    except ValueError as error:
        raise TaskError("it is no JSON") from error
    try:
        params = _Row.model_validate(row).responses_create_params
    except ValidationError as error:
        first = error.errors(include_input=False, include_url=False)[0]
        raise TaskError(f"{'.'.join(map(str, first['loc']))}: {first['msg']}") from error
    said = _said(params)
    shown = tuple(m for m in said if m.role != "system")
    if needs_prompt and not shown:
        raise TaskError("responses_create_params.input has no message for the policy to answer")
    return Task(
        row=row,
        system=tuple(m.content for m in said if m.role == "system"),
        messages=shown,
        tools=_tools(params),
        leaves_tools_to_server=not params.tools and params.tool_choice != "none",
        takes_one_call=params.parallel_tool_calls is False,
        category=_category(row),
    )


def _lines(file: BinaryIO) -> Iterator[tuple[int, bytes]]:
    """Those that hold something, with their numbers, counted from 1."""
    for number, line in enumerate(file, 1):
        if stripped := line.strip():
            yield number, stripped


def _said(params: _Params) -> list[ChatMessage]:
    first = [ChatMessage(role="system", content=params.instructions)] if params.instructions else []
    return [*first, *map(_message, params.input)]


def _message(given: _Message) -> ChatMessage:
    blocks = given.content
    return ChatMessage(
        role="system" if given.role == "developer" else given.role,
        content="\n".join(block.text for block in blocks if isinstance(block, _Text)),
        images=tuple(_image(block) for block in blocks if isinstance(block, _Picture)),
        is_quoted=given.role == "assistant",
    )


def _image(block: _Picture) -> Image:
    found = _DATA_URL.match(block.image_url)
    try:
        if found is None:
            raise ValueError("not a data URL")
        media_type = cast("MediaType", found[1])
        return Image(media_type=media_type, base64=block.image_url[found.end() :])
    except ValueError as error:
        raise TaskError(
            "an image must be a PNG, JPEG or WebP file in a data URL with base64; nothing is fetched"
        ) from error


def _tools(params: _Params) -> tuple[ToolSpec, ...]:
    if params.tool_choice == "none":
        return ()
    return tuple(
        ToolSpec(name=tool.name, description=tool.description, input_schema=tool.parameters)
        for tool in params.tools or ()
    )


def _category(row: Mapping[str, Any]) -> str | None:
    given = (row.get(name) for name in _CATEGORIES)
    found = next((value for value in given if isinstance(value, str) and value), None)
    return found and found[:MAX_CATEGORY_CHARS]
