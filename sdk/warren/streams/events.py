"""Reading a run's events: each once, in order, across lost connections.

Invariants: offsets only rise and an event's id comes once, so what is sent twice is dropped;
reading goes on behind the last offset that was handed out; the reader ends after the run's last
event, or when the gateway says that the run is over and has nothing more to send.
"""

import asyncio
import contextlib
import logging
import time
from collections import deque
from collections.abc import AsyncGenerator, Callable
from dataclasses import dataclass
from urllib.parse import quote

from pydantic import ValidationError

from warren.connection.sse import ServerEvent, SseParser
from warren.connection.transport import Transport
from warren.errors import GatewayBusy, GatewayError, GatewayUnreachable
from warren_schemas.events import RunEvent, RunEventBody, StateChanged
from warren_schemas.http import RunView
from warren_schemas.ids import RunId

TWINS = 128
"""An event that was stored twice is at most this many events behind its duplicate."""

log = logging.getLogger(__name__)

ConnectionChanged = Callable[[GatewayError | GatewayUnreachable | None], None]
"""Told the error when the connection is lost, and None when it is back."""


@dataclass(frozen=True, slots=True)
class Event:
    """Something that happened to a run."""

    offset: int
    """Its place in the run's event stream; give it to `events(after=…)` to go on behind it."""
    at_s: float
    """Unix time."""
    id: str
    """The same when the event was stored twice."""
    body: RunEventBody

    @property
    def is_last(self) -> bool:
        return isinstance(self.body, StateChanged) and self.body.state.is_final


class EventReader:
    def __init__(
        self,
        transport: Transport,
        run: RunId,
        *,
        after: int | None,
        reconnect_s: float,
        on_connection: ConnectionChanged | None,
    ) -> None:
        self._transport = transport
        self._path = f"/v1/runs/{quote(run, safe='')}"
        self._last = after
        self._reconnect_s = reconnect_s
        self._on_connection = on_connection or _log_connection
        self._waits = self._transport.backoff.delays()
        self._recent: deque[str] = deque(maxlen=TWINS)
        self._lost_since_s: float | None = None

    async def read(self) -> AsyncGenerator[Event]:
        """Raises the error of the connection after `reconnect_s` without one."""
        while True:
            before = self._last
            try:
                async with contextlib.aclosing(self._connection()) as events:
                    async for event in events:
                        yield event
                        if event.is_last:
                            return
                if self._last == before and await self._is_over():
                    return
            except (GatewayUnreachable, GatewayBusy) as error:
                self._note_loss(error)
            await asyncio.sleep(next(self._waits))

    async def _connection(self) -> AsyncGenerator[Event]:
        parser = SseParser()
        async with self._transport.stream(f"{self._path}/events", after=self._last) as chunks:
            self._note_connection()
            async for chunk in chunks:
                for raw in parser.feed(chunk):
                    event = self._accept(raw)
                    if event is not None:
                        yield event

    def _accept(self, raw: ServerEvent) -> Event | None:
        event = _parse(raw)
        if self._last is not None and event.offset <= self._last:
            return None
        self._last = event.offset
        self._waits = self._transport.backoff.delays()
        if event.id in self._recent:
            return None
        self._recent.append(event.id)
        return event

    async def _is_over(self) -> bool:
        view = await self._transport.get(self._path, RunView)
        return view.state.is_final

    def _note_connection(self) -> None:
        if self._lost_since_s is not None:
            self._lost_since_s = None
            self._on_connection(None)

    def _note_loss(self, error: GatewayUnreachable | GatewayBusy) -> None:
        now_s = time.monotonic()
        if self._lost_since_s is None:
            self._lost_since_s = now_s
            self._on_connection(error)
        if now_s - self._lost_since_s >= self._reconnect_s:
            raise error


def _parse(raw: ServerEvent) -> Event:
    try:
        event = RunEvent.model_validate_json(raw.data)
        return Event(int(raw.id), event.at_s, event.envelope.id, event.body)
    except (ValidationError, ValueError) as error:
        raise GatewayError(
            f"The gateway sent an event ({raw.name!r}) that this version of warren can't read",
            hint="Install the gateway's version of warren-rl; `warren doctor` compares the two.",
        ) from error


def _log_connection(error: GatewayError | GatewayUnreachable | None) -> None:
    if error is not None:
        log.warning("%s; trying again", error.message)
    else:
        log.info("the gateway is back")
