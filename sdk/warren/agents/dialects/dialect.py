"""What every dialect has: how a body becomes a question, an answer a body or a stream, an error a body."""

from collections.abc import Iterator, Mapping
from typing import Protocol

from pydantic import BaseModel, JsonValue

from warren.agents.conversation import Answer, Question
from warren.agents.live import LiveAgent
from warren_schemas.openai import ChatLogprobs, Usage

Body = dict[str, JsonValue]
Event = tuple[str | None, str]
"""Name and data of a server-sent event."""
_OF_TOOLS = frozenset({"input", "input_schema", "parameters"})


class Refusal(Exception):
    """A request that can't be answered."""

    def __init__(self, status: int, message: str, code: str = "invalid_request") -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.code = code


class Telling(Protocol):
    """One request that was read."""

    @property
    def question(self) -> Question: ...
    @property
    def is_streamed(self) -> bool: ...
    def whole(self, answer: Answer) -> Body: ...
    def events(self, answer: Answer) -> Iterator[Event]:
        """The whole answer as the events of a stream."""
        ...


class Dialect(Protocol):
    @property
    def paths(self) -> tuple[str, ...]:
        """The first is where other servers have it."""
        ...

    def read(self, body: Body, live: LiveAgent) -> Telling:
        """Raises `Refusal` and `ValidationError`."""
        ...

    def error(self, status: int, code: str, message: str) -> Body: ...


def given(
    body: Mapping[str, JsonValue],
    without: frozenset[str] = frozenset(),
    anywhere: frozenset[str] = frozenset(),
) -> Body:
    """The keys that say something: null is the same as not there, and so is `without`, and what `anywhere`
    names also at its blocks and tools. What a tool takes, or is given, stays as it is: its keys are its own.
    """
    ignored = without | anywhere if without else anywhere
    return {
        key: value if _is_of_tool(key, value) else _given(value, anywhere)
        for key, value in body.items()
        if value is not None and key not in ignored
    }


def _given(value: JsonValue, anywhere: frozenset[str]) -> JsonValue:
    if isinstance(value, str):
        return value
    if isinstance(value, dict):
        return given(value, anywhere=anywhere)
    return [_given(each, anywhere) for each in value] if isinstance(value, list) else value


def _is_of_tool(key: str, value: JsonValue) -> bool:
    return key in _OF_TOOLS and isinstance(value, dict)


def plain(body: BaseModel) -> Body:
    return body.model_dump(mode="json", exclude_none=True)


def openai_error(status: int, code: str, message: str) -> Body:
    kind = "authentication_error" if status == 401 else "invalid_request_error"
    return {"error": {"message": message, "type": kind, "param": None, "code": code}}


def usage(answer: Answer) -> Usage:
    n_prompt, n_said = len(answer.sampled.prompt_ids), len(answer.sampled.ids)
    return Usage(prompt_tokens=n_prompt, completion_tokens=n_said, total_tokens=n_prompt + n_said)


def named_logprobs(answer: Answer) -> ChatLogprobs:
    sampled = answer.sampled
    content = [
        {"token": f"token_id:{token}", "logprob": logprob}
        for token, logprob in zip(sampled.ids, sampled.logprobs, strict=True)
    ]
    return ChatLogprobs.model_validate({"content": content})
