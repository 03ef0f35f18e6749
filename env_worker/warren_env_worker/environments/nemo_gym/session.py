"""One episode's session with a resource server.

Invariant: what the policy was shown is what the session went through. A session that is lost is seeded anew under another
cookie and all calls are made again: if any answer differs, it is `NotReplayable`. Verdicts are not compared, for none was
heard before.
"""

import hashlib
import logging
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from typing import Any, Literal, NamedTuple, TypeVar

from pydantic import TypeAdapter, ValidationError

from warren.environment import NotReplayable, TaskError
from warren_env_worker.environments.nemo_gym.answers import (
    SEEDED,
    VERDICT,
    Answer,
    Seeded,
    Verdict,
    reason,
)
from warren_env_worker.environments.nemo_gym.connection import Connection, GymFailed
from warren_env_worker.permissions.retries import (
    MAX_LOSSES,
    SessionLost,
    unless_lost,
    with_retries,
)
from warren_env_worker.permissions.service import FAILED, Service

_REFUSED = (400, 422)

ResultT = TypeVar("ResultT")
log = logging.getLogger(__name__)


class _Called(NamedTuple):
    path: str
    body: dict[str, Any]
    digest: str


class GymSession:
    def __init__(
        self,
        service: Service,
        row: dict[str, Any],
        *,
        patience_s: float,
        begins_with: Literal["seed_session", "reset"] = "seed_session",
        wants_mcp: bool = False,
    ) -> None:
        """What `reset` answers is shown to the policy, and must be the same in a session that is made anew.

        `wants_mcp`: what `seed_session` answers may say where the tools are.
        """
        self._service = service
        self._row = row
        self._patience_s = patience_s
        self._begins_with = begins_with
        self._wants_mcp = wants_mcp
        self._first: Answer | None = None
        self._connection: Connection | None = None
        self._called: list[_Called] = []
        self._is_closed = False

    @property
    def url(self) -> str:
        return str(self._service.url)

    @property
    def mcp_path(self) -> str | None:
        """Where tools are offered by MCP, in a session that is open."""
        return self._connection.mcp.path if self._connection and self._connection.mcp else None

    async def open(self) -> Answer:
        """Raises `GymFailed`, and `TaskError` where the server refuses the row."""
        self._connection = await self._rebuilt()
        assert self._first is not None
        return self._first

    async def call(self, path: str, body: dict[str, Any]) -> Answer:
        """Raises `GymFailed`, `NotReplayable`."""
        answer = await self._unless_lost(lambda at: at.post(path, body))
        self._called.append(_Called(path, body, _digest(answer)))
        return answer

    async def verify(self, response: dict[str, Any]) -> Verdict:
        """Raises `GymFailed`, `NotReplayable`, `TaskError`."""
        body = {**self._row, "response": response}
        answer = await self._unless_lost(lambda at: at.post("verify", body))
        verdict = self.read(VERDICT, "verify", answer)
        if verdict.failure is not None:
            raise GymFailed(f"{self._service.url} judged nothing: {verdict.failure}")
        return verdict

    def read(self, adapter: TypeAdapter[ResultT], path: str, answer: Answer) -> ResultT:
        """Raises `GymFailed`, `TaskError`."""
        self._require_good(path, answer)
        try:
            return adapter.validate_json(answer.content)
        except ValidationError as error:
            assert self._connection is not None
            raise self._connection.unreadable(path, error) from error

    async def close(self) -> None:
        """Also in the middle of a call. The server is not told: it has no word for it."""
        self._is_closed = True
        await self._leave()

    async def _unless_lost(self, ask: Callable[[Connection], Awaitable[ResultT]]) -> ResultT:
        async def at_its_place() -> ResultT:
            if self._connection is None:
                self._connection = await self._rebuilt()
            return await ask(self._connection)

        return await unless_lost(at_its_place, self._lose, self._lost_too_often)

    async def _lose(self, _: SessionLost) -> None:
        log.warning("%s lost a session", self._service.url)
        await self._leave()

    def _lost_too_often(self) -> GymFailed:
        return GymFailed(f"{self._service.url} lost the session {MAX_LOSSES} times")

    async def _rebuilt(self) -> Connection:
        """A session as it was after the last call. Raises `SessionLost`."""
        async with AsyncExitStack() as stack:
            connection = await with_retries(self._seeded, self._patience_s, self._failed)
            stack.push_async_callback(connection.close)
            for number, before in enumerate(self._called, 1):
                await self._repeat(connection, number, before)
            if self._is_closed:
                raise self._failed()
            stack.pop_all()
            return connection

    async def _repeat(self, connection: Connection, number: int, before: _Called) -> None:
        at = f"call {number} ({before.path})"
        try:
            again = _digest(await connection.post(before.path, before.body))
        except GymFailed as error:
            raise self._differs(f"it fails at {at}: {error}") from error
        if again != before.digest:
            raise self._differs(f"it answers {at} otherwise")

    async def _seeded(self) -> Connection:
        """A connection of its own, with a session in which nothing was called. Raises `RetryLater`."""
        async with AsyncExitStack() as stack:
            connection = Connection(self._service, patience_s=self._patience_s)
            stack.push_async_callback(connection.close)
            answer = await connection.begin(self._begins_with, self._row)
            self._require_good(self._begins_with, answer)
            if self._wants_mcp:
                connection.mcp = _seeded(connection, answer).mcp
            self._first = self._first or answer
            if self._begins_with == "reset" and answer.content != self._first.content:
                raise self._differs("it answers reset otherwise")
            stack.pop_all()
            return connection

    async def _leave(self) -> None:
        left, self._connection = self._connection, None
        if left is not None:
            await left.close()

    def _require_good(self, path: str, answer: Answer) -> None:
        if answer.status == 200:
            return
        told = reason(answer) if answer.status in _REFUSED else None
        if told is not None:
            raise TaskError(f"{self._service.url} refuses the row in {path}: {told}")
        raise self._failed()

    def _failed(self) -> GymFailed:
        return GymFailed(f"{self._service.url}: {FAILED}")

    def _differs(self, how: str) -> NotReplayable:
        return NotReplayable(f"{self._service.url} lost the session; seeded anew, {how}")


def _seeded(connection: Connection, answer: Answer) -> Seeded:
    try:
        return SEEDED.validate_json(answer.content)
    except ValidationError as error:
        raise connection.unreadable("seed_session", error) from error


def _digest(answer: Answer) -> str:
    return hashlib.blake2b(
        answer.content, digest_size=16, salt=answer.status.to_bytes(2)
    ).hexdigest()
