"""One episode's session with an ORS server.

Invariants: what the policy was shown is what the session went through. A session that is lost (the server was
started anew, reaped it, or broke off in a call) is opened again and all calls are repeated; if any answer,
reward or end differs, it is `NotReplayable`, and never an episode that goes on from another state. A session is
deleted when its episode is over or it is replaced, from the moment that the server told its id, even if its task never
arrived; the server forgets those of a worker that was killed.
"""

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple, TypeVar

from pydantic import TypeAdapter

from warren.environment import NotReplayable
from warren_env_worker.environments.ors.answers import (
    PROMPT,
    TOOLS,
    Done,
    Refused,
    Tools,
    digest,
)
from warren_env_worker.environments.ors.conversation import TURNS, Opening, Turn, of_prompt
from warren_env_worker.environments.ors.secrets import Secrets
from warren_env_worker.environments.ors.server import Asked, OrsFailed, OrsServer
from warren_env_worker.permissions.retries import MAX_LOSSES, RetryLater, SessionLost, unless_lost

PING_S = 10.0
"""A server may forget a session that is silent for two minutes."""
LEAVE_S = 10.0

ResultT = TypeVar("ResultT")
log = logging.getLogger(__name__)


class Task(NamedTuple):
    environment: str
    split: str
    number: int


class _Called(NamedTuple):
    name: str
    arguments: dict[str, Any]
    digest: str


class OrsSession:
    def __init__(self, server: OrsServer, task: Task, secrets: Secrets) -> None:
        self._server = server
        self._task = task
        self._secrets = secrets
        self._id: str | None = None
        """Of the session that is open."""
        self._made: str | None = None
        """Of the last session that the server made, which may be there though it did not open."""
        self._unopened: str | None = None
        """The same, if the server refused to open it for now."""
        self._opening = ""
        """Its digest."""
        self._called: list[_Called] = []
        self._pinging: asyncio.Task[None] | None = None
        self._is_closed = False

    async def open(self) -> Opening:
        """Raises `OrsFailed`."""
        self._pinging = asyncio.create_task(self._ping(), name="ORS ping")
        try:
            opening = await self._unless_lost(self._begin)
        finally:
            await self._leave_if_closed()
        self._opening = digest(opening)
        return opening

    async def call(self, name: str, arguments: dict[str, Any]) -> Done | Refused:
        """Raises `OrsFailed` for a tool that raised too, and `NotReplayable`."""

        async def at_its_place() -> Done | Refused:
            if self._id is None:
                await self._rebuild()
            return await self._once(name, arguments)

        try:
            reply = await self._unless_lost(at_its_place)
        finally:
            await self._leave_if_closed()
        self._called.append(_Called(name, arguments, digest(reply)))
        return reply

    async def close(self) -> None:
        """Also in the middle of a call. Whatever the server says to it, the episode is over."""
        self._is_closed = True
        if self._pinging is not None:
            self._pinging.cancel()
        try:
            await self._drop()
        finally:
            await self._server.close()

    async def _drop(self) -> None:
        """Both requests are sent: a proxy whose environment is starting refuses the first, and takes the second."""
        left, self._made, self._id = self._made, None, None
        if left is None:
            return
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(LEAVE_S):
                for path in ("delete", "delete_session"):
                    with contextlib.suppress(Exception):
                        await self._server.ask_once(Asked("POST", path, session=left))

    async def _unless_lost(self, ask: Callable[[], Awaitable[ResultT]]) -> ResultT:
        return await unless_lost(ask, self._leave, self._failed)

    async def _leave(self, _: SessionLost) -> None:
        log.warning("%s lost the session of %s", self._server.url, self._task)
        self._id = None

    def _failed(self) -> OrsFailed:
        return OrsFailed(f"{self._server.url} lost the session {MAX_LOSSES} times")

    async def _rebuild(self) -> None:
        """The session, as it was after the last call."""
        if digest(await self._begin()) != self._opening:
            raise _differs(self._task, "begins otherwise")
        for number, before in enumerate(self._called, 1):
            try:
                again = digest(await self._once(before.name, before.arguments))
            except OrsFailed as error:
                raise _differs(self._task, f"failed at call {number}: {error}") from error
            if again != before.digest:
                raise _differs(self._task, f"answered call {number} ({before.name}) otherwise")

    async def _begin(self) -> Opening:
        self._id = await self._server.with_retries(self._create)
        tools = await self._asked_for(TOOLS, "task_tools")
        return Opening(tools=tools, turns=await self._turns(tools))

    async def _turns(self, tools: Tools) -> tuple[Turn, ...]:
        """As a conversation, where the server tells it so: elsewhere nothing is asked in vain."""
        if tools.message_block_types is not None:
            told = await self._asked_for(TURNS, "messages")
            if told is not None:
                return told
        return of_prompt(await self._asked_for(PROMPT, "prompt"))

    async def _create(self) -> str:
        """The id of a session that is open. Raises `RetryLater`, `SessionLost`.

        A session that the server refused to open is asked for again, since nothing has begun in it; it may have been
        forgotten meanwhile. After a `create` that broke off, nobody knows whether its session is open: another one is made.
        """
        unopened, self._unopened = self._unopened, None
        session = unopened or await self._new()
        asked = Asked("POST", "create", self._choice(), session, self._secrets.headers)
        try:
            await self._server.ask_once(asked)
        except RetryLater as again:
            self._unopened = session if again.is_refused else None
            raise
        except OrsFailed as error:
            if unopened is None:
                raise
            raise SessionLost from error
        return session

    async def _new(self) -> str:
        await self._drop()
        self._made = await self._server.new_session(self._secrets.headers)
        return self._made

    def _choice(self) -> dict[str, object]:
        body: dict[str, object] = {
            "split": self._task.split,
            "index": self._task.number,
        }
        if not self._server.is_deployed:
            body["env_name"] = self._task.environment
        if self._secrets.values and self._secrets.sent_in == "body":
            body["secrets"] = dict(self._secrets.values)
        return body

    async def _once(self, name: str, arguments: dict[str, Any]) -> Done | Refused:
        body = {"name": name, "input": arguments}
        return await self._server.call(Asked("POST", self._server.path("call"), body, self._id))

    async def _asked_for(self, adapter: TypeAdapter[ResultT], what: str) -> ResultT:
        asked = Asked("GET", self._server.path(what), session=self._id)
        return await self._server.ask_for(adapter, asked)

    async def _ping(self) -> None:
        """Whatever it hears: the next call finds out."""
        while True:
            await asyncio.sleep(PING_S)
            if self._id is not None:
                with contextlib.suppress(Exception):
                    await self._server.ask_once(Asked("POST", "ping", session=self._id))

    async def _leave_if_closed(self) -> None:
        """What was opened after `close` had gone by."""
        if self._is_closed:
            await self.close()


def _differs(task: Task, how: str) -> NotReplayable:
    return NotReplayable(
        f"the ORS server lost the session of {task.split} {task.number}; opened and played anew, it {how}"
    )
