"""OpenAI's Responses."""

import time
from collections.abc import Iterator, Sequence
from typing import Annotated, Literal

import orjson
from pydantic import Field, JsonValue

from warren.agents.conversation import Answer, Message, Question
from warren.agents.dialects.dialect import Body, Event, Refusal, given, openai_error
from warren.agents.live import LiveAgent
from warren_schemas.base import Frozen, Listed
from warren_schemas.chat.tool_formats import Tool
from warren_schemas.chat.tools_in_chat import Called
from warren_schemas.images import Image
from warren_schemas.openai.requests import image_of

IGNORED = frozenset({
    "temperature", "top_p", "top_logprobs", "max_output_tokens", "reasoning", "truncation", "user",
    "metadata", "store", "service_tier", "safety_identifier", "prompt_cache_key", "include",
    "prompt_cache_retention", "parallel_tool_calls", "max_tool_calls", "stream_options",
})  # fmt: skip
"""How to sample is the run's to say; the rest is for a service that keeps or bills."""


class _Part(Frozen):
    type: Literal["input_text", "output_text", "text", "refusal"]
    text: str = ""


class _Picture(Frozen):
    type: Literal["input_image"]
    image_url: str


class _Said(Frozen):
    type: Literal["message"] = "message"
    role: Literal["system", "developer", "user", "assistant"]
    content: str | Listed[_Part | _Picture]


class _FunctionCall(Frozen):
    type: Literal["function_call"]
    call_id: str
    name: str
    arguments: str


class _FunctionResult(Frozen):
    type: Literal["function_call_output"]
    call_id: str
    output: str | Listed[_Part | _Picture]


class _Function(Frozen):
    type: Literal["function"]
    name: str
    description: str | None = None
    parameters: dict[str, JsonValue] = Field(default_factory=dict[str, JsonValue])


_Item = Annotated[_Said | _FunctionCall | _FunctionResult, Field(discriminator="type")]


class ResponsesRequest(Frozen):
    model: str
    input: str | Annotated[Listed[_Item], Field(min_length=1)]
    instructions: str | None = None
    tools: Listed[_Function] = ()
    stream: bool = False


class ResponsesDialect:
    paths = ("/v1/responses",)

    def read(self, body: Body, live: LiveAgent) -> "ResponsesTelling":
        asked = given(body, IGNORED)
        before = asked.pop("previous_response_id", None)
        if asked.pop("tool_choice", None) == "none":
            asked.pop("tools", None)
        if asked.get("text") in ({}, {"format": {"type": "text"}}):
            del asked["text"]
        if isinstance(items := asked.get("input"), list):
            asked["input"] = [_bare(item) for item in items if not _is_thought(item)]
        if isinstance(tools := asked.get("tools"), list):
            asked["tools"] = [_without(tool, "strict") for tool in tools]
        request = ResponsesRequest.model_validate(asked)
        return ResponsesTelling(request, _before(before, live), live)

    def error(self, status: int, code: str, message: str) -> Body:
        return openai_error(status, code, message)


def _before(response: JsonValue, live: LiveAgent) -> tuple[Message, ...]:
    """What was said up to a response that the client names. Instructions don't carry over."""
    if response is None:
        return ()
    if not isinstance(response, str) or response not in live.by_id:
        raise Refusal(404, f"previous_response_id: this episode has no response {response}")
    return live.by_id[response]


def _is_thought(item: JsonValue) -> bool:
    return isinstance(item, dict) and item.get("type") == "reasoning"


def _bare(item: JsonValue) -> JsonValue:
    """Without what our own answers have beside what was said."""
    if not isinstance(item, dict):
        return item
    named: Body = {"type": "message", **item} if "role" in item else item
    content = named.get("content")
    if isinstance(content, list):
        marks = ("annotations", "logprobs", "detail")
        named = {**named, "content": [_without(part, *marks) for part in content]}
    return _without(named, "id", "status", "phase")


def _without(value: JsonValue, *keys: str) -> JsonValue:
    if not isinstance(value, dict):
        return value
    return {key: each for key, each in value.items() if key not in keys}


class ResponsesTelling:
    def __init__(
        self, request: ResponsesRequest, before: tuple[Message, ...], live: LiveAgent
    ) -> None:
        self._request = request
        self._live = live
        self.is_streamed = request.stream
        system = [Message("system", request.instructions)] if request.instructions else []
        tools = (Tool(t.name, t.description, dict(t.parameters)) for t in request.tools)
        self._said = (*before, *_read(request.input))
        self.question = Question((*system, *self._said), tuple(tools))

    def whole(self, answer: Answer) -> Body:
        """And the history up to here can be named from now on."""
        told = self._told(answer, "completed", _items(answer))
        self._live.by_id[str(told["id"])] = (*self._said, answer.said)
        return told

    def events(self, answer: Answer) -> Iterator[Event]:
        begun = self._told(answer, "in_progress", [])
        steps = [("response.created", {"response": begun})]
        for index, item in enumerate(_items(answer)):
            steps += _of_item(index, item)
        steps.append(("response.completed", {"response": self.whole(answer)}))
        for number, (kind, fields) in enumerate(steps):
            told = {"type": kind, "sequence_number": number, **fields}
            yield kind, orjson.dumps(told).decode()

    def _told(self, answer: Answer, status: str, items: Sequence[Body]) -> Body:
        is_cut = answer.sampled.is_cut and status == "completed"
        n_prompt, n_said = len(answer.sampled.prompt_ids), len(answer.sampled.ids)
        return {
            "id": f"resp_{answer.turn}",
            "object": "response",
            "created_at": int(time.time()),
            "model": self._request.model,
            "status": "incomplete" if is_cut else status,
            "incomplete_details": {"reason": "max_output_tokens"} if is_cut else None,
            "error": None,
            "output": list(items),
            "instructions": self._request.instructions,
            "metadata": {},
            "parallel_tool_calls": True,
            "tool_choice": "auto",
            "tools": [tool.model_dump(mode="json") for tool in self._request.tools],
            "temperature": None,
            "top_p": None,
            "usage": {
                "input_tokens": n_prompt,
                "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
                "output_tokens": n_said,
                "output_tokens_details": {"reasoning_tokens": 0},
                "total_tokens": n_prompt + n_said,
            },
        }


def _read(items: str | Sequence[_Said | _FunctionCall | _FunctionResult]) -> list[Message]:
    """An assistant's words and the calls behind them are one message."""
    if isinstance(items, str):
        return [Message("user", items)]
    messages: list[Message] = []
    for item in items:
        if isinstance(item, _FunctionCall):
            call = Called(item.name, item.arguments)
            is_behind = bool(messages) and messages[-1].role == "assistant"
            said = messages.pop() if is_behind else Message("assistant", "")
            messages.append(Message("assistant", said.text, calls=(*said.calls, call)))
        elif isinstance(item, _FunctionResult):
            messages.append(_message("tool", item.output))
        else:
            role = "system" if item.role == "developer" else item.role
            messages.append(_message(role, item.content))
    return messages


def _message(
    role: Literal["system", "user", "assistant", "tool"], content: str | Sequence[_Part | _Picture]
) -> Message:
    if isinstance(content, str):
        return Message(role, content)
    text = "".join(part.text for part in content if isinstance(part, _Part))
    urls = (part.image_url for part in content if isinstance(part, _Picture))
    return Message(role, text, tuple(map(_image, urls)))


def _image(url: str) -> Image:
    try:
        return image_of(url)
    except ValueError as error:
        raise Refusal(400, f"input_image: {error}") from error


def _items(answer: Answer) -> list[Body]:
    items: list[Body] = []
    if answer.said.text or not answer.said.calls:
        part: Body = {"type": "output_text", "text": answer.said.text, "annotations": []}
        items.append({
            "id": f"msg_{answer.turn}",
            "type": "message",
            "status": "completed",
            "role": "assistant",
            "content": [part],
        })  # fmt: skip
    for own, call in zip(answer.ids_of_calls, answer.said.calls, strict=True):
        items.append({
            "id": f"fc_{own}",
            "type": "function_call",
            "status": "completed",
            "call_id": own,
            "name": call.name,
            "arguments": call.arguments,
        })  # fmt: skip
    return items


def _of_item(index: int, item: Body) -> list[tuple[str, Body]]:
    """The events that tell one item whole."""
    where: Body = {"output_index": index, "item_id": item["id"]}
    began: Body = {"output_index": index, "item": {**item, "status": "in_progress"}}
    told = _of_message(where, item) if item["type"] == "message" else _of_call(where, item)
    if item["type"] == "message":
        began["item"] = {**item, "status": "in_progress", "content": []}
    done: Body = {"output_index": index, "item": item}
    return [
        ("response.output_item.added", began),
        *told,
        ("response.output_item.done", done),
    ]


def _of_message(where: Body, item: Body) -> list[tuple[str, Body]]:
    parts = item["content"]
    assert isinstance(parts, list)
    part = parts[0]
    assert isinstance(part, dict)
    here: Body = {**where, "content_index": 0}
    text = part["text"]
    return [
        ("response.content_part.added", {**here, "part": {**part, "text": ""}}),
        ("response.output_text.delta", {**here, "delta": text, "logprobs": []}),
        ("response.output_text.done", {**here, "text": text, "logprobs": []}),
        ("response.content_part.done", {**here, "part": part}),
    ]


def _of_call(where: Body, item: Body) -> list[tuple[str, Body]]:
    said = item["arguments"]
    return [
        ("response.function_call_arguments.delta", {**where, "delta": said}),
        ("response.function_call_arguments.done", {**where, "arguments": said}),
    ]
