"""What an MCP server answers, checked at the border, and as a message to the policy. Keys that we don't know are
passed over: servers add some."""

import json
from typing import cast, get_args

from pydantic import BaseModel, ConfigDict, Field, JsonValue, TypeAdapter

from warren.environment import ChatMessage, Image
from warren_env_worker.environments.tool_calls import ToolSpec
from warren_schemas.images import MediaType

NOTHING = "(nothing)"
_IMAGES = get_args(MediaType)


class _Answer(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True)


class Opened(_Answer):
    """A server that is connected to."""

    tools: tuple[ToolSpec, ...]
    may_change: bool
    """It says that its tools may be others later."""
    instructions: str | None = None


class Resource(_Answer):
    uri: str = ""
    text: str | None = None
    blob: str | None = None
    """In base64."""
    mime_type: str | None = Field(default=None, alias="mimeType")


class Block(_Answer):
    """Of whatever type: what it lacks is None."""

    type: str
    text: str | None = None
    data: str | None = None
    """In base64."""
    mime_type: str | None = Field(default=None, alias="mimeType")
    resource: Resource | None = None
    uri: str | None = None
    name: str | None = None
    description: str | None = None


class Result(_Answer):
    """Of a call."""

    content: tuple[Block, ...] = ()
    structured: JsonValue = None
    is_error: bool = False
    refused: str | None = None
    """Why the server did not make the call."""
    is_late: bool = False
    too_large_bytes: int | None = None

    def error(self, call_s: float) -> str | None:
        """Why there is no result, for the policy."""
        if self.is_late:
            return f"it took longer than {call_s:g} s"
        if self.too_large_bytes is not None:
            return f"the result has {self.too_large_bytes} bytes, too many to be shown"
        return self.refused

    def message(self, max_chars: int) -> ChatMessage:
        """Texts a line each, after the images; the structured content if there is nothing else."""
        images = tuple(image for block in self.content if (image := _image(block)) is not None)
        texts = [_text(block) for block in self.content if _image(block) is None]
        if not self.content and self.structured is not None:
            texts = [json.dumps(self.structured, ensure_ascii=False)]
        told = within("\n".join(texts), max_chars) or ("" if images else NOTHING)
        return ChatMessage(
            role="tool", content=f"Error: {told}" if self.is_error else told, images=images
        )


OPENED: TypeAdapter[dict[str, Opened]] = TypeAdapter(dict[str, Opened])
TOOLS: TypeAdapter[dict[str, tuple[ToolSpec, ...]]] = TypeAdapter(dict[str, tuple[ToolSpec, ...]])


def within(text: str, max_chars: int) -> str:
    n_left_out = len(text) - max_chars
    return text if n_left_out <= 0 else f"{text[:max_chars]}\n[{n_left_out} more characters]"


def _image(block: Block) -> Image | None:
    """Of a block, or of the resource in it."""
    held = (block.mime_type, block.data)
    if block.resource is not None:
        held = (block.resource.mime_type, block.resource.blob)
    media_type, base64 = held
    if media_type not in _IMAGES or base64 is None:
        return None
    return Image(media_type=cast("MediaType", media_type), base64=base64)


def _text(block: Block) -> str:
    if block.text is not None:
        return block.text
    if block.resource is not None:
        resource = block.resource
        return (
            f"{resource.uri}:\n{resource.text}"
            if resource.text is not None
            else _left_out(resource.uri, resource.mime_type, resource.blob)
        )
    if block.uri is not None:
        return " ".join(part for part in (block.name, block.uri, block.description) if part)
    return _left_out(block.type, block.mime_type, block.data)


def _left_out(what: str, media_type: str | None, base64: str | None) -> str:
    n_bytes = len((base64 or "").rstrip("=")) * 3 // 4
    return f"[{what}: {n_bytes} bytes of {media_type or 'unknown type'}, which can't be shown]"
