"""What every dialect has: how a body becomes a question, an answer a body or a stream, an error a body."""

from collections.abc import Iterator, Mapping
from typing import Protocol

from pydantic import BaseModel, JsonValue

from warren.agents.conversation import Answer, Question
from warren.agents.live import LiveAgent

Body = dict[str, JsonValue]
Event = tuple[str | None, str]
"""Name and data of a server-sent event."""


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
    path: str

    def read(self, body: Body, live: LiveAgent) -> Telling:
        """Raises `Refusal` and `ValidationError`."""
        ...

    def error(self, status: int, code: str, message: str) -> Body: ...


def given(body: Mapping[str, JsonValue], without: frozenset[str] = frozenset()) -> Body:
    """The keys that say something: null is the same as not there, at any depth."""
    return {
        key: _given(value)
        for key, value in body.items()
        if value is not None and key not in without
    }


def _given(value: JsonValue) -> JsonValue:
    if isinstance(value, dict):
        return given(value)
    return [_given(each) for each in value] if isinstance(value, list) else value


def plain(body: BaseModel) -> Body:
    return body.model_dump(mode="json", exclude_none=True)
