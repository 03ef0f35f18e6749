"""Requests to an ORS server.

Invariants: only what is sure not to have run is asked for twice. A call is repeated if it never left, if the
server said that it is busy (429) or starting (503 with `X-Backend-State: starting`), or under the server's own number for
it (`task_id`), which attaches to what runs already. A call that broke off or was answered 503 before it had that number
may have run or not: then nobody knows the session's state, and it is `SessionLost`.

A server that says that it is busy or starting is waited for, as long as the caller may take; one that does not
answer is `OrsFailed` after `patience_s`. Of answers that are none, nothing is told (`permissions.service`).

An environment with its owner's name is asked for without a name; a server that answers with a redirect to the name of one
is asked for that (`redirects`), from then on at once.
"""

import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, replace
from typing import TypeVar

import aiohttp
import orjson
from pydantic import TypeAdapter, ValidationError

from warren.connection.sse import ServerEvent, SseParser
from warren_env_worker.environments.ors.answers import REPLY, TASK, Done, Refused
from warren_env_worker.environments.ors.redirects import REDIRECTS, name_told
from warren_env_worker.permissions.retries import RetryLater, SessionLost
from warren_env_worker.permissions.retrying_client import RetryingClient
from warren_env_worker.permissions.service import MAX_ANSWER_BYTES, Service, content_of
from warren_schemas.datasets.row_ids import row_id

SILENT_S = 30.0
"""A stream says something every 10 s, if only that it is there."""
ANSWER_S = 300.0
"""For an answer that is no stream: it may wait for the environment to be set up."""

_GONE = (404, 410)
_REFUSED = (400, 422)
_NO_WORD = (404, 405, 501)
"""From a server that has tasks by number alone, or no conversations."""

ResultT = TypeVar("ResultT")
log = logging.getLogger(__name__)


class OrsFailed(Exception):
    """The server can't be had, or what it answers can't be used."""


@dataclass(frozen=True, slots=True)
class Asked:
    """A request, by its path below the server's URL."""

    method: str
    path: str
    body: object = None
    session: str | None = None
    headers: Mapping[str, str] | None = None


class OrsServer:
    """A connection of its own to the server, for one event loop."""

    def __init__(self, service: Service, environment: str, *, patience_s: float) -> None:
        """An environment with its owner's name before it is named by a header, and in paths as the server says."""
        self.url = service.url
        self.is_deployed = "/" in environment
        self._name = None if self.is_deployed else environment.lower()
        headers = {"X-API-Key": service.key} if service.key is not None else {}
        if self.is_deployed:
            headers["X-Deployment"] = environment
        self._client = RetryingClient(
            service, headers, answer_s=ANSWER_S, patience_s=patience_s, failure=OrsFailed
        )

    async def close(self) -> None:
        await self._client.close()

    def path(self, what: str) -> str:
        """Of what the environment has."""
        return what if self._name is None else f"{self._name}/{what}"

    async def ask(self, asked: Asked) -> object:
        """The JSON of an answer that may be asked for again. Raises `OrsFailed`, `SessionLost`."""
        return await self.with_retries(lambda: self.ask_once(asked))

    async def ask_for(self, adapter: TypeAdapter[ResultT], asked: Asked) -> ResultT:
        """The same, as what it must be."""
        answer = await self.ask(asked)
        try:
            return adapter.validate_python(answer)
        except ValidationError as error:
            raise self._client.unreadable(asked.path, error) from error

    async def ask_once(self, asked: Asked) -> object:
        async with self._response(asked) as response:
            if response.status in _NO_WORD:
                return None
            if response.status != 200:
                raise self._client.failed()
            try:
                return orjson.loads(await content_of(response))
            except ValueError as error:
                log.warning("%s answered with something else than JSON", self.url)
                raise self._client.failed() from error

    async def task_id(self, split: str, number: int) -> str | None:
        """What the server's own description of a task calls it. Raises `OrsFailed`."""
        asked = Asked("POST", self.path("task"), {"split": split, "index": number})
        told = await self.ask_for(TASK, asked)
        return None if told is None else row_id(told.task)

    async def new_session(self, headers: Mapping[str, str]) -> str:
        """Its id. May be asked for again: the server forgets those that nobody uses."""
        asked = Asked("POST", "create_session", {}, headers=headers)
        async with self._response(asked, answer_s=SILENT_S) as response:
            async for event in _events(response):
                if event.name == "task_id":
                    return event.data.strip()
        raise RetryLater(is_there=True)

    async def call(self, asked: Asked) -> Done | Refused:
        """What a tool answered. Raises `OrsFailed`, `SessionLost`."""
        stream = _Call(asked)
        return await self.with_retries(lambda: self._call(stream))

    async def _call(self, call: "_Call") -> Done | Refused:
        was_resumed = call.number is not None
        try:
            async with self._response(call.asked, answer_s=SILENT_S) as response:
                if response.status in _REFUSED:
                    return Refused(ok=False, error="the server refuses these arguments")
                async for event in _events(response):
                    if (told := call.take(event, was_resumed=was_resumed)) is not None:
                        return self._reply(told)
            raise RetryLater(is_there=True)
        except RetryLater as again:
            is_sent = not (again.is_refused or isinstance(again.__cause__, _NOT_SENT))
            if is_sent and call.number is None:
                raise SessionLost(pause_s=again.pause_s) from again
            raise

    def _reply(self, text: str) -> Done | Refused:
        try:
            return REPLY.validate_json(text)
        except ValidationError as error:
            raise self._client.unreadable("call", error) from error

    async def with_retries(self, ask: Callable[[], Awaitable[ResultT]]) -> ResultT:
        """Asks until there is an answer. Raises `OrsFailed` and what `ask` does."""
        return await self._client.with_retries(ask)

    @asynccontextmanager
    async def _response(
        self, asked: Asked, *, answer_s: float = ANSWER_S
    ) -> AsyncGenerator[aiohttp.ClientResponse]:
        """One with the status 200, or one that refuses a call or has no word for what is asked. Raises `RetryLater` if it breaks off."""
        async with self._answer(asked, answer_s) as response:
            name = self._told_name(asked, response)
            if name is None:
                self._require_good(asked, response.status)
                yield response
                return
        self._name = name
        named = replace(asked, path=self.path(asked.path))
        async with self._answer(named, answer_s) as response:
            self._require_good(named, response.status)
            yield response

    def _answer(
        self, asked: Asked, answer_s: float
    ) -> AbstractAsyncContextManager[aiohttp.ClientResponse]:
        headers = dict(asked.headers or {})
        if asked.session is not None:
            headers["X-Session-ID"] = asked.session
        expected = (*_expected(asked), *(REDIRECTS if self._may_be_named(asked) else ()))
        return self._client.response(
            asked.method, asked.path, asked.body, headers, answer_s, expected=expected
        )

    def _may_be_named(self, asked: Asked) -> bool:
        return self.is_deployed and "/" not in asked.path

    def _told_name(self, asked: Asked, response: aiohttp.ClientResponse) -> str | None:
        if response.status not in REDIRECTS or not self._may_be_named(asked):
            return None
        return name_told(self.url, asked.path, response.headers)

    def _require_good(self, asked: Asked, status: int) -> None:
        if status == 200 or status in _expected(asked):
            return
        if status in _GONE and asked.session is not None and asked.path != "create":
            raise SessionLost
        raise self._client.failed()


_NO_TASK = frozenset(range(201, 600)) - {429, 502, 503, 504}
"""Whatever else a server makes of the request for a task's description is told by who asks, and not of each episode."""
_EXPECTED = {"call": _REFUSED, "task": _NO_TASK, "task_range": _NO_WORD, "messages": _NO_WORD}
"""By the last part of the path."""
_NOT_SENT = (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError)


def _expected(asked: Asked) -> Collection[int]:
    return _EXPECTED.get(asked.path.rpartition("/")[2], ())


class _Call:
    """A call of a tool, on its way through one stream or several."""

    def __init__(self, asked: Asked) -> None:
        self._asked = asked
        self.number: str | None = None
        """The server's, by which what runs is found again."""
        self._pieces: list[str] = []

    @property
    def asked(self) -> Asked:
        self._pieces = []  # a stream tells all from the beginning
        if self.number is None:
            return self._asked
        body = {**_fields(self._asked.body), "task_id": self.number}
        return Asked(self._asked.method, self._asked.path, body, self._asked.session)

    def take(self, event: ServerEvent, *, was_resumed: bool) -> str | None:
        """The whole answer, with its last event."""
        if event.name == "task_id":
            self.number = event.data.strip()
        elif event.name in ("chunk", "end"):
            self._pieces.append(event.data)
        elif event.name == "error":
            if was_resumed and event.data == "unknown task_id":
                raise SessionLost
            raise OrsFailed(
                f"the tool {_fields(self._asked.body).get('name')} failed: {event.data}"
            )
        return "".join(self._pieces) if event.name == "end" else None


async def _events(response: aiohttp.ClientResponse) -> AsyncGenerator[ServerEvent]:
    parser, n_bytes = SseParser(), 0
    async for chunk in response.content.iter_any():
        n_bytes += len(chunk)
        if n_bytes > MAX_ANSWER_BYTES:
            raise OrsFailed("the server's answer is too long")
        for event in parser.feed(chunk):
            yield event


def _fields(body: object) -> dict[str, object]:
    return dict(body) if isinstance(body, dict) else {}  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]
