"""What the samplers answered -> bodies in the manner of OpenAI, whole or in chunks."""

import time
from collections.abc import Sequence
from typing import Protocol

from pydantic import BaseModel

from warren_gateway.inference.requests import tools_of
from warren_schemas.chat.tools_in_chat import spoken_in
from warren_schemas.episode import Step
from warren_schemas.ids import new_id
from warren_schemas.openai import (
    CalledInChunk,
    ChatChoice,
    ChatChunk,
    ChatChunkChoice,
    ChatCompletion,
    ChatLogprobs,
    ChatMessageAnswer,
    ChatRequest,
    CompletionRequest,
    Delta,
    FunctionCall,
    TextChoice,
    TextCompletion,
    TextLogprobs,
    ToolCall,
    Usage,
)


class Telling(Protocol):
    """One request's answers as bodies."""

    def whole(self, steps: Sequence[Step]) -> BaseModel: ...
    def chunk(self, index: int, step: Step) -> BaseModel:
        """One answer, in a stream."""
        ...

    def last(self, steps: Sequence[Step]) -> BaseModel:
        """The end of a stream: how many tokens there were."""
        ...


class ChatTelling:
    def __init__(self, request: ChatRequest) -> None:
        self._request = request
        self._id = new_id("chatcmpl")
        self._created = int(time.time())
        self._tools = {tool.function.name for tool in tools_of(request)}

    def whole(self, steps: Sequence[Step]) -> ChatCompletion:
        return ChatCompletion(
            id=self._id,
            created=self._created,
            model=self._request.model,
            choices=tuple(self._choice(i, step) for i, step in enumerate(steps)),
            usage=usage(steps),
            prompt_token_ids=prompt_ids(steps[0]) if self._request.return_token_ids else None,
        )

    def chunk(self, index: int, step: Step) -> ChatChunk:
        choice = self._choice(index, step)
        calls = choice.message.tool_calls
        told = ChatChunkChoice(
            index=index,
            delta=Delta(content=choice.message.content, tool_calls=_numbered(calls)),
            finish_reason=choice.finish_reason,
            logprobs=choice.logprobs,
            token_ids=choice.token_ids,
            versions=choice.versions,
        )
        prompt = prompt_ids(step) if self._request.return_token_ids else None
        return self._bare_chunk().model_copy(
            update={"choices": (told,), "prompt_token_ids": prompt}
        )

    def last(self, steps: Sequence[Step]) -> ChatChunk:
        return self._bare_chunk().model_copy(update={"usage": usage(steps)})

    def _bare_chunk(self) -> ChatChunk:
        return ChatChunk(id=self._id, created=self._created, model=self._request.model)

    def _choice(self, index: int, step: Step) -> ChatChoice:
        ids, logprobs, versions = sampled(step)
        message = _message(step.transcript.messages[-1].content, self._tools)
        wants_ids = self._request.return_token_ids
        return ChatChoice(
            index=index,
            message=message,
            finish_reason="tool_calls" if message.tool_calls else step.finish.value,
            logprobs=named_logprobs(ids, logprobs) if self._request.logprobs else None,
            token_ids=tuple(ids) if wants_ids else None,
            versions=tuple(versions) if wants_ids else None,
        )


class TextTelling:
    def __init__(self, request: CompletionRequest) -> None:
        self._request = request
        self._bare = TextCompletion(
            id=new_id("cmpl"), created=int(time.time()), model=request.model
        )

    def whole(self, steps: Sequence[Step]) -> TextCompletion:
        choices = tuple(self._choice(i, step) for i, step in enumerate(steps))
        return self._told(steps[0], {"choices": choices, "usage": usage(steps)})

    def chunk(self, index: int, step: Step) -> TextCompletion:
        return self._told(step, {"choices": (self._choice(index, step),)})

    def last(self, steps: Sequence[Step]) -> TextCompletion:
        return self._bare.model_copy(update={"usage": usage(steps)})

    def _told(self, step: Step, fields: dict[str, object]) -> TextCompletion:
        prompt = prompt_ids(step) if self._request.return_token_ids else None
        return self._bare.model_copy(update={**fields, "prompt_token_ids": prompt})

    def _choice(self, index: int, step: Step) -> TextChoice:
        ids, logprobs, versions = sampled(step)
        wants_ids = self._request.return_token_ids
        told = TextLogprobs(tokens=tuple(map(_name, ids)), token_logprobs=tuple(logprobs))
        return TextChoice(
            index=index,
            text=step.transcript.messages[-1].content,
            finish_reason=step.finish.value,
            logprobs=None if self._request.logprobs is None else told,
            token_ids=tuple(ids) if wants_ids else None,
            versions=tuple(versions) if wants_ids else None,
        )


def usage(steps: Sequence[Step]) -> Usage:
    n_prompt = len(prompt_ids(steps[0]))
    n_sampled = sum(step.transcript.tokens.n_sampled for step in steps)
    return Usage(
        prompt_tokens=n_prompt, completion_tokens=n_sampled, total_tokens=n_prompt + n_sampled
    )


def prompt_ids(step: Step) -> tuple[int, ...]:
    tokens = step.transcript.tokens
    return tuple(tokens.ids_T[tokens.mask_T == 0].tolist())


def sampled(step: Step) -> tuple[list[int], list[float], list[int]]:
    """Ids, logprobs and versions of what the policy said."""
    tokens = step.transcript.tokens
    is_sampled_T = tokens.mask_T == 1
    columns = (tokens.ids_T, tokens.logprobs_T, tokens.versions_T)
    ids, logprobs, versions = (column_T[is_sampled_T].tolist() for column_T in columns)
    return ids, logprobs, versions


def _name(token_id: int) -> str:
    return f"token_id:{token_id}"


def named_logprobs(ids: list[int], logprobs: list[float]) -> ChatLogprobs:
    """One for each token, by its id; validated in one go, for there may be thousands."""
    content = [
        {"token": _name(token_id), "logprob": logprob}
        for token_id, logprob in zip(ids, logprobs, strict=True)
    ]
    return ChatLogprobs.model_validate({"content": content})


def _message(words: str, tools: set[str]) -> ChatMessageAnswer:
    spoken = spoken_in(words, tools)
    called = tuple(
        ToolCall(id=new_id("call"), function=FunctionCall(name=call.name, arguments=call.arguments))
        for call in spoken.calls
    )
    return ChatMessageAnswer(content=spoken.text, tool_calls=called or None)


def _numbered(calls: tuple[ToolCall, ...] | None) -> tuple[CalledInChunk, ...] | None:
    if calls is None:
        return None
    return tuple(
        CalledInChunk(index=i, id=call.id, function=call.function) for i, call in enumerate(calls)
    )
