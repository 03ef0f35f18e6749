"""What an ORS server answers, checked at the border.

Keys that we don't know are passed over: servers of two dialects answer, and each has some that the other
lacks. What we do read is held against its type: an answer that is none is `ValidationError`.
"""

import hashlib
from collections.abc import Sequence
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, FiniteFloat, TypeAdapter

from warren.environment import ChatMessage, Image
from warren_env_worker.environments.tool_calls import ToolSpec
from warren_schemas.images import MediaType


class Answer(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True)


class TextBlock(Answer):
    type: Literal["text"]
    text: str


class ImageBlock(Answer):
    type: Literal["image"]
    data: str
    """In base64."""
    mime_type: MediaType = Field(alias="mimeType")


Block = Annotated[TextBlock | ImageBlock, Field(discriminator="type")]
Blocks = tuple[Block, ...]


class Split(Answer):
    name: str


class TerminalTool(Answer):
    """Takes the policy's last words; the policy is not told of it."""

    name: str
    arg: str | None = None
    """The argument that is the words. None: it takes none, and judges by the state that the calls have made."""


class Tools(Answer):
    tools: tuple[ToolSpec, ...]
    terminal_tool: TerminalTool | None = None
    supports_score_group: bool | None = None
    """The environment compares whole groups, beside what its calls reward or instead of it."""
    message_block_types: tuple[str, ...] | None = None
    """Of a server that tells a task as a conversation."""

    @property
    def told(self) -> tuple[ToolSpec, ...]:
        """Those that the policy is told of."""
        hidden = self.terminal_tool.name if self.terminal_tool else None
        return tuple(tool for tool in self.tools if tool.name != hidden)


class NumTasks(Answer):
    num_tasks: Annotated[int, Field(ge=0)]


class OneTask(Answer):
    task: dict[str, Any]


class TaskRange(Answer):
    tasks: tuple[dict[str, Any], ...]


class Output(Answer):
    blocks: Blocks
    reward: FiniteFloat | None = None
    """None gives no reward at this call, which is not a reward of 0."""
    finished: bool = False


class Done(Answer):
    ok: Literal[True]
    output: Output


class Refused(Answer):
    """Said to the policy: an unknown tool, wrong arguments."""

    ok: Literal[False]
    error: str


Reply = Annotated[Done | Refused, Field(discriminator="ok")]

NAMES: TypeAdapter[tuple[str, ...]] = TypeAdapter(tuple[str, ...])
SPLITS: TypeAdapter[tuple[Split, ...]] = TypeAdapter(tuple[Split, ...])
TOOLS = TypeAdapter(Tools)
NUM_TASKS = TypeAdapter(NumTasks)
TASK: TypeAdapter[OneTask | None] = TypeAdapter(OneTask | None)
TASK_RANGE: TypeAdapter[TaskRange | None] = TypeAdapter(TaskRange | None)
"""None: the server has no word for it."""
PROMPT: TypeAdapter[Blocks] = TypeAdapter(Blocks)
REPLY: TypeAdapter[Done | Refused] = TypeAdapter(Reply)


def digest(answer: Answer) -> str:
    """Equal for answers that are the same to the policy and to its reward."""
    return hashlib.blake2b(answer.model_dump_json().encode(), digest_size=16).hexdigest()


def message(
    role: Literal["user", "tool", "assistant"], blocks: Sequence[TextBlock | ImageBlock]
) -> ChatMessage:
    """Blocks as one message: its texts, a line each, after its images. What an assistant said is quoted."""
    return ChatMessage(
        role=role,
        is_quoted=role == "assistant",
        content="\n".join(block.text for block in blocks if isinstance(block, TextBlock)),
        images=tuple(
            Image(media_type=block.mime_type, base64=block.data)
            for block in blocks
            if isinstance(block, ImageBlock)
        ),
    )
