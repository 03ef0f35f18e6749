"""All sessions of this gateway: who comes in, who is still inside, and when somebody has to go.

Invariants: a worker is in one session at most (a second one ends the first, which may be
half-open, and begins when that has handed everything back); a key that is no longer good ends its
sessions as soon as this gateway knows (`access.callers`). How many there may be, of whom, is a budget that is held before the socket is accepted
(`slots`).
"""

import asyncio
import logging
from dataclasses import dataclass, field
from functools import partial

from aiohttp import web

from warren_broker.port import Broker
from warren_broker.remote.frames import (
    OUT_OF_ORDER,
    PROTOCOL,
    REPLACED,
    REVOKED,
    WRONG_PROTOCOL,
    Hello,
    Welcome,
    pack,
)
from warren_gateway.access.caller import Viewer
from warren_gateway.budgets.pool import Budgets
from warren_gateway.remote.declared_queues import DeclaredQueues
from warren_gateway.remote.issued import Issued
from warren_gateway.remote.owner_grants import OwnerGrants
from warren_gateway.remote.session import (
    MAX_BYTES,
    MAX_CALLS,
    Misconduct,
    RemoteSession,
    read_frame,
    receive,
)
from warren_gateway.remote.worker_slots import WorkerSlots
from warren_gateway.runs.service import Runs

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionLimits:
    hello_s: float = 10.0
    """How long a worker may take to say who it is."""
    eviction_s: float = 10.0
    """How long the session that a new one replaces may take to end."""


SESSION_LIMITS = SessionLimits()


@dataclass(eq=False)
class _Guest:
    socket: web.WebSocketResponse
    gone: asyncio.Event = field(default_factory=asyncio.Event)


class RemoteSessions:
    def __init__(
        self,
        broker: Broker,
        runs: Runs,
        budgets: Budgets,
        limits: SessionLimits = SESSION_LIMITS,
    ) -> None:
        self.slots = WorkerSlots(budgets.env_workers)
        self._queues = DeclaredQueues(budgets.env_queues)
        self._limits = limits
        self._broker = broker
        self._runs = runs
        self._issued = Issued()
        self._guests: dict[tuple[str, str], _Guest] = {}

    async def serve(
        self,
        socket: web.WebSocketResponse,
        owner: str,
        worker: str | None,
        lost: asyncio.Event,
    ) -> None:
        """One session, from its hello to its end; `worker` is who it is the place of. `lost` is set once
        the key is no longer good.

        Raises `Misconduct`.
        """
        hello = await _hello(socket, self._limits.hello_s)
        if worker not in (None, hello.worker):
            raise Misconduct(OUT_OF_ORDER, f"{hello.worker} has connected as {worker}")
        await self._serve(socket, owner, hello.worker, lost)

    async def _serve(
        self, socket: web.WebSocketResponse, owner: str, worker: str, lost: asyncio.Event
    ) -> None:
        guest = await self._take_place((owner, worker), socket)
        queues = self._queues.of_session(owner)
        watching = asyncio.create_task(_end_with_key(socket, lost), name="watch a key")
        log.info("env worker %s of %s is connected", worker, owner)
        try:
            welcome = Welcome(owner=owner, max_calls=MAX_CALLS, max_bytes=MAX_BYTES)
            await socket.send_bytes(pack(welcome))
            runs = partial(self._runs.owned, Viewer(owner))
            grants = OwnerGrants(queues, worker, self._issued, runs)
            await RemoteSession(socket, self._broker, grants).run()
        finally:
            watching.cancel()
            queues.close()
            guest.gone.set()
            if self._guests.get((owner, worker)) is guest:
                del self._guests[owner, worker]
            log.info("env worker %s of %s is gone", worker, owner)

    async def _take_place(self, name: tuple[str, str], socket: web.WebSocketResponse) -> _Guest:
        """Turn out whoever is in there under this name, and wait until he has left everything."""
        while (before := self._guests.get(name)) is not None:
            await before.socket.close(code=REPLACED, message=b"this worker has connected anew")
            async with asyncio.timeout(self._limits.eviction_s):
                await before.gone.wait()
        guest = self._guests[name] = _Guest(socket)
        return guest


async def _end_with_key(socket: web.WebSocketResponse, lost: asyncio.Event) -> None:
    await lost.wait()
    await socket.close(code=REVOKED, message=b"this API key is no longer good")


async def _hello(socket: web.WebSocketResponse, hello_s: float) -> Hello:
    try:
        async with asyncio.timeout(hello_s):
            data = await receive(socket)
    except TimeoutError as error:
        raise Misconduct(OUT_OF_ORDER, f"no hello within {hello_s:g} s") from error
    if data is None:
        raise ConnectionResetError("it hung up before it said hello")
    frame, _ = read_frame(data)
    if not isinstance(frame, Hello):
        raise Misconduct(OUT_OF_ORDER, f"a session begins with hello, not with {frame.kind}")
    if frame.protocol != PROTOCOL:
        raise Misconduct(
            WRONG_PROTOCOL,
            f"this gateway speaks protocol {PROTOCOL}, the worker {frame.protocol}; use the same version",
        )
    return frame
