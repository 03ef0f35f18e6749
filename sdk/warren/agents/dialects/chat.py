"""OpenAI's chat completions."""

import time
from collections.abc import Iterator
from typing import cast

import orjson
from pydantic import JsonValue

from warren.agents.conversation import Answer, Message, Question
from warren.agents.dialects.dialect import (
    Body,
    Event,
    Refusal,
    given,
    named_logprobs,
    openai_error,
    plain,
    usage,
)
from warren.agents.live import LiveAgent
from warren_schemas.chat.tool_formats import Tool
from warren_schemas.chat.tools_in_chat import Called
from warren_schemas.openai import (
    AskedMessage,
    CalledInChunk,
    ChatChoice,
    ChatChunk,
    ChatChunkChoice,
    ChatCompletion,
    ChatLogprobs,
    ChatMessageAnswer,
    ChatRequest,
    Delta,
    FinishedBy,
    FunctionCall,
    ToolCall,
)

SETTINGS = frozenset({
    "temperature", "top_p", "top_k", "min_p", "seed", "frequency_penalty", "presence_penalty",
    "repetition_penalty", "logit_bias", "max_tokens", "max_completion_tokens", "stop", "thinking",
})  # fmt: skip
"""How to sample is the run's to say, or the trainer could not compute what was sampled from."""
BOOKKEEPING = frozenset({
    "user", "metadata", "store", "service_tier", "safety_identifier", "prompt_cache_key",
    "prompt_cache_retention", "parallel_tool_calls", "reasoning_effort", "verbosity", "top_logprobs",
})  # fmt: skip
"""Sent by clients for services that keep or bill, or for models that reason as they are told."""
_OF_MESSAGES = frozenset({
    "name", "refusal", "annotations", "audio", "function_call", "reasoning", "reasoning_content",
    "parsed",
})  # fmt: skip
_OF_CALLS = frozenset({"index", "parsed_arguments"})
"""What clients keep at a call that came in a stream, or that they read."""


class ChatDialect:
    paths = ("/v1/chat/completions",)

    def read(self, body: Body, live: LiveAgent) -> "ChatTelling":
        return ChatTelling(ChatRequest.model_validate(_tamed(body)))

    def error(self, status: int, code: str, message: str) -> Body:
        return openai_error(status, code, message)


def _tamed(body: Body) -> Body:
    """What a policy has use for."""
    asked = given(body, SETTINGS | BOOKKEEPING)
    asked["tools"] = [_tool(tool) for tool in _listed(asked.get("tools"))] or None
    asked["messages"] = [_message(message) for message in _listed(asked.get("messages"))]
    if asked.get("tool_choice") != "none":  # a call can't be forced
        asked.pop("tool_choice", None)
    if asked.get("response_format") == {"type": "text"}:
        del asked["response_format"]
    if asked.get("n", 1) != 1:
        raise Refusal(400, "n: a policy that acts gives one answer; ask once for each")
    return asked


def _listed(value: JsonValue) -> list[JsonValue]:
    return value if isinstance(value, list) else []


def _tool(tool: JsonValue) -> JsonValue:
    function = tool.get("function") if isinstance(tool, dict) else None
    if not isinstance(tool, dict) or not isinstance(function, dict):
        return tool
    return {**tool, "function": given(function, frozenset({"strict"}))}


def _message(message: JsonValue) -> JsonValue:
    return given(message, _OF_MESSAGES, _OF_CALLS) if isinstance(message, dict) else message


class ChatTelling:
    def __init__(self, request: ChatRequest) -> None:
        self._request = request
        self.is_streamed = request.stream
        self.question = Question(
            tuple(_read(message) for message in request.messages),
            tuple(_offered(request)),
        )

    def whole(self, answer: Answer) -> Body:
        choice = ChatChoice(
            index=0,
            message=ChatMessageAnswer(content=_content(answer), tool_calls=_calls(answer) or None),
            finish_reason=_finish(answer),
            logprobs=self._logprobs(answer),
            token_ids=self._ids(answer.sampled.ids),
            versions=self._ids(answer.sampled.versions),
        )
        told = ChatCompletion(
            id=_id(answer),
            created=int(time.time()),
            model=self._request.model,
            choices=(choice,),
            usage=usage(answer),
            prompt_token_ids=self._ids(answer.sampled.prompt_ids),
        )
        body = plain(told)
        message = cast(Body, cast("list[Body]", body["choices"])[0]["message"])
        message.setdefault("content", None)  # clients read it where there are calls, too
        return body

    def events(self, answer: Answer) -> Iterator[Event]:
        bare = ChatChunk(id=_id(answer), created=int(time.time()), model=self._request.model)
        calls = tuple(
            CalledInChunk(index=n, id=call.id, function=call.function)
            for n, call in enumerate(_calls(answer))
        )
        choice = ChatChunkChoice(
            index=0,
            delta=Delta(content=answer.said.text or None, tool_calls=calls or None),
            finish_reason=_finish(answer),
            logprobs=self._logprobs(answer),
            token_ids=self._ids(answer.sampled.ids),
            versions=self._ids(answer.sampled.versions),
        )
        prompt = self._ids(answer.sampled.prompt_ids)
        yield _event(bare.model_copy(update={"choices": (choice,), "prompt_token_ids": prompt}))
        options = self._request.stream_options
        if options is not None and options.include_usage:
            yield _event(bare.model_copy(update={"usage": usage(answer)}))
        yield None, "[DONE]"

    def _ids(self, ids: object) -> tuple[int, ...] | None:
        return tuple(cast("list[int]", ids)) if self._request.return_token_ids else None

    def _logprobs(self, answer: Answer) -> ChatLogprobs | None:
        if not self._request.logprobs:
            return None
        return named_logprobs(answer)


def _read(asked: AskedMessage) -> Message:
    role = "system" if asked.role == "developer" else asked.role
    functions = [call.function for call in asked.tool_calls or ()]
    calls = tuple(Called(each.name, each.arguments) for each in functions)
    return Message(role, asked.text, asked.images, calls)


def _offered(request: ChatRequest) -> Iterator[Tool]:
    for tool in request.tools or () if request.tool_choice != "none" else ():
        spec = tool.function
        yield Tool(spec.name, spec.description, dict(spec.parameters))


def _content(answer: Answer) -> str | None:
    """An answer without a word and without a call is an empty text."""
    return answer.said.text or (None if answer.said.calls else "")


def _calls(answer: Answer) -> tuple[ToolCall, ...]:
    return tuple(
        ToolCall(id=own, function=FunctionCall(name=call.name, arguments=call.arguments))
        for own, call in zip(answer.ids_of_calls, answer.said.calls, strict=True)
    )


def _finish(answer: Answer) -> FinishedBy:
    if answer.said.calls:
        return "tool_calls"
    return "length" if answer.sampled.is_cut else "stop"


def _id(answer: Answer) -> str:
    return f"chatcmpl-{answer.turn}"


def _event(chunk: ChatChunk) -> Event:
    return None, orjson.dumps(plain(chunk)).decode()
