"""Anthropic's Messages."""

import json
from collections.abc import Iterator, Sequence
from typing import Annotated, Literal

import orjson
from pydantic import Field, JsonValue

from warren.agents.conversation import Answer, Message, Question
from warren.agents.dialects.dialect import Body, Event, given
from warren.agents.live import LiveAgent
from warren_schemas.base import Frozen, Listed
from warren_schemas.chat.tool_formats import Tool
from warren_schemas.chat.tools_in_chat import Called
from warren_schemas.images import Image

IGNORED = frozenset({
    "max_tokens", "temperature", "top_p", "top_k", "stop_sequences", "thinking", "metadata",
    "service_tier", "betas", "cache_control", "output_config",
})  # fmt: skip
"""How to sample is the run's to say; the rest is for a service that keeps or bills."""

MARKS = frozenset({"cache_control", "citations", "strict"})
"""What clients write at blocks and tools for a service that keeps or constrains."""


class _Source(Frozen):
    type: Literal["base64"]
    media_type: Literal["image/png", "image/jpeg", "image/webp"]
    data: str


class _Text(Frozen):
    type: Literal["text"]
    text: str


class _Picture(Frozen):
    type: Literal["image"]
    source: _Source


class _ToolUse(Frozen):
    type: Literal["tool_use"]
    id: str
    name: str
    input: dict[str, JsonValue]


_Shown = Annotated[_Text | _Picture, Field(discriminator="type")]


class _ToolResult(Frozen):
    type: Literal["tool_result"]
    tool_use_id: str
    content: str | Listed[_Shown] = ""
    is_error: bool = False


_Block = Annotated[_Text | _Picture | _ToolUse | _ToolResult, Field(discriminator="type")]


class _Asked(Frozen):
    role: Literal["user", "assistant"]
    content: str | Listed[_Block]


class _Offered(Frozen):
    name: str
    description: str | None = None
    input_schema: dict[str, JsonValue]
    type: Literal["custom"] = "custom"


class MessagesRequest(Frozen):
    model: str
    messages: Annotated[Listed[_Asked], Field(min_length=1)]
    system: str | Listed[_Text] | None = None
    tools: Listed[_Offered] = ()
    stream: bool = False


class AnthropicDialect:
    paths = ("/v1/messages",)

    def read(self, body: Body, live: LiveAgent) -> "MessagesTelling":
        asked = given(body, IGNORED, MARKS)
        choice = asked.pop("tool_choice", None)
        if isinstance(choice, dict) and choice.get("type") == "none":
            asked.pop("tools", None)
        return MessagesTelling(MessagesRequest.model_validate(asked))

    def error(self, status: int, code: str, message: str) -> Body:
        kind = "authentication_error" if status == 401 else "invalid_request_error"
        return {"type": "error", "error": {"type": kind, "message": message}}


class MessagesTelling:
    def __init__(self, request: MessagesRequest) -> None:
        self._model = request.model
        self.is_streamed = request.stream
        system = _system(request.system)
        messages = [message for asked in request.messages for message in _read(asked)]
        tools = (Tool(t.name, t.description, dict(t.input_schema)) for t in request.tools)
        self.question = Question((*system, *messages), tuple(tools))

    def whole(self, answer: Answer) -> Body:
        return self._told(answer, _blocks(answer), _stop(answer), len(answer.sampled.ids))

    def events(self, answer: Answer) -> Iterator[Event]:
        yield _event("message_start", message=self._told(answer, [], None, 0))
        for index, block in enumerate(_blocks(answer)):
            bare, delta = _parts(block)
            yield _event("content_block_start", index=index, content_block=bare)
            yield _event("content_block_delta", index=index, delta=delta)
            yield _event("content_block_stop", index=index)
        stop: Body = {"stop_reason": _stop(answer), "stop_sequence": None}
        yield _event("message_delta", delta=stop, usage={"output_tokens": len(answer.sampled.ids)})
        yield _event("message_stop")

    def _told(self, answer: Answer, blocks: Sequence[Body], stop: str | None, n_said: int) -> Body:
        return {
            "id": f"msg_{answer.turn}",
            "type": "message",
            "role": "assistant",
            "model": self._model,
            "content": list(blocks),
            "stop_reason": stop,
            "stop_sequence": None,
            "usage": {"input_tokens": len(answer.sampled.prompt_ids), "output_tokens": n_said},
        }


def _system(system: str | Sequence[_Text] | None) -> list[Message]:
    if system is None:
        return []
    text = system if isinstance(system, str) else "\n".join(part.text for part in system)
    return [Message("system", text)] if text else []


def _read(asked: _Asked) -> Iterator[Message]:
    """Results of tools are messages of their own, and come first."""
    if isinstance(asked.content, str):
        yield Message(asked.role, asked.content)
        return
    for block in asked.content:
        if isinstance(block, _ToolResult):
            parts = block.content
            shown = (_Text(type="text", text=parts),) if isinstance(parts, str) else parts
            yield Message("tool", _text(shown), _images(shown))
    rest = [block for block in asked.content if not isinstance(block, _ToolResult)]
    calls = tuple(
        Called(block.name, json.dumps(block.input)) for block in rest if isinstance(block, _ToolUse)
    )
    if rest:
        yield Message(asked.role, _text(rest), _images(rest), calls)


def _text(blocks: Sequence[Frozen]) -> str:
    return "".join(block.text for block in blocks if isinstance(block, _Text))


def _images(blocks: Sequence[Frozen]) -> tuple[Image, ...]:
    sources = (block.source for block in blocks if isinstance(block, _Picture))
    return tuple(Image(media_type=each.media_type, base64=each.data) for each in sources)


def _blocks(answer: Answer) -> list[Body]:
    said: list[Body] = []
    if answer.said.text or not answer.said.calls:
        said.append({"type": "text", "text": answer.said.text})
    for own, call in zip(answer.ids_of_calls, answer.said.calls, strict=True):
        arguments: JsonValue = orjson.loads(call.arguments)
        said.append({"type": "tool_use", "id": own, "name": call.name, "input": arguments})
    return said


def _parts(block: Body) -> tuple[Body, Body]:
    """A block without what it says, and that."""
    if block["type"] == "text":
        return {**block, "text": ""}, {"type": "text_delta", "text": block["text"]}
    said = orjson.dumps(block["input"]).decode()
    return {**block, "input": {}}, {"type": "input_json_delta", "partial_json": said}


def _stop(answer: Answer) -> str:
    if answer.said.calls:
        return "tool_use"
    return "max_tokens" if answer.sampled.is_cut else "end_turn"


def _event(kind: str, **fields: JsonValue) -> Event:
    return kind, orjson.dumps({"type": kind, **fields}).decode()
