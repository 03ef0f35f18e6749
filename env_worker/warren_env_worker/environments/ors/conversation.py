"""A task's prompt as a conversation with roles, and how the policy is shown it.

What another assistant said is quoted, its calls in the format in which the policy makes its own. System messages go into
the one system prompt: not every model takes two.
"""

from typing import Annotated, Any, Literal

from pydantic import Field, TypeAdapter

from warren.environment import ChatMessage, TaskError
from warren_env_worker.environments.ors.answers import (
    Answer,
    Blocks,
    ImageBlock,
    TextBlock,
    Tools,
    message,
)
from warren_schemas.chat.tool_formats import write_call
from warren_schemas.config import ToolFormat


class Reasoning(Answer):
    type: Literal["reasoning"]
    text: str


class ToolCall(Answer):
    type: Literal["tool_call"]
    name: str
    input: dict[str, Any]


class ToolResult(Answer):
    """Stands in a turn of the user."""

    type: Literal["tool_result"]
    blocks: Blocks
    is_error: bool = False


class SystemTurn(Answer):
    role: Literal["system"]
    blocks: Blocks


class UserTurn(Answer):
    role: Literal["user"]
    blocks: tuple[Annotated[TextBlock | ImageBlock | ToolResult, Field(discriminator="type")], ...]


class AssistantTurn(Answer):
    role: Literal["assistant"]
    blocks: tuple[
        Annotated[TextBlock | ImageBlock | Reasoning | ToolCall, Field(discriminator="type")], ...
    ]


Turn = Annotated[SystemTurn | UserTurn | AssistantTurn, Field(discriminator="role")]
TURNS: TypeAdapter[tuple[SystemTurn | UserTurn | AssistantTurn, ...] | None] = TypeAdapter(
    tuple[Turn, ...] | None
)
"""None: the server has no word for it."""


class Opening(Answer):
    """How a session begins."""

    tools: Tools
    turns: tuple[Turn, ...]

    @property
    def system(self) -> str | None:
        """Raises `TaskError` for an image."""
        blocks = [b for turn in self.turns if isinstance(turn, SystemTurn) for b in turn.blocks]
        if any(isinstance(block, ImageBlock) for block in blocks):
            raise TaskError("the task has an image in a system message, which is text alone")
        return message("user", blocks).content or None

    def shown(self, form: ToolFormat) -> list[ChatMessage]:
        """But for the system messages."""
        return [said for turn in self.turns for said in _said(turn, form) if _is_worth(said)]


def of_prompt(blocks: Blocks) -> tuple[UserTurn]:
    return (UserTurn(role="user", blocks=blocks),)


def _said(turn: SystemTurn | UserTurn | AssistantTurn, form: ToolFormat) -> list[ChatMessage]:
    if isinstance(turn, SystemTurn):
        return []
    if isinstance(turn, AssistantTurn):
        return [message("assistant", [_as_words(block, form) for block in turn.blocks])]
    told = [_result(block) for block in turn.blocks if isinstance(block, ToolResult)]
    plain = [block for block in turn.blocks if not isinstance(block, ToolResult)]
    return [*told, message("user", plain)]


def _as_words(
    block: TextBlock | ImageBlock | Reasoning | ToolCall, form: ToolFormat
) -> TextBlock | ImageBlock:
    if isinstance(block, Reasoning):
        return TextBlock(type="text", text=f"<think>\n{block.text}\n</think>")
    if isinstance(block, ToolCall):
        return TextBlock(type="text", text=write_call(block.name, block.input, form))
    return block


def _result(result: ToolResult) -> ChatMessage:
    told = message("tool", result.blocks)
    return (
        told.model_copy(update={"content": f"Error: {told.content}"}) if result.is_error else told
    )


def _is_worth(said: ChatMessage) -> bool:
    """An empty result of a tool is one."""
    return bool(said.content or said.images or said.role == "tool")
