"""Reads the log of a run, of all components: each line once, in order, across lost connections.

Invariant: lines of one source have numbers without gaps, so one that comes twice is known, and so is how many
are missing, whether their source left them out or they are no longer kept. A gateway that takes connections and tells
nothing new is waited for no longer than one that is away.
"""

import asyncio
import contextlib
import math
import time
from collections.abc import AsyncGenerator, Iterator
from urllib.parse import quote, urlencode

from pydantic import ValidationError

from warren.connection.transport import Transport
from warren.errors import GatewayBusy, GatewayError, GatewayUnreachable
from warren_schemas.base import Frozen
from warren_schemas.events import LogComponent, LogLevel, RunLogged
from warren_schemas.http import LogView
from warren_schemas.ids import RunId


class LogEntry(Frozen):
    """One line of a run's log."""

    at_s: float
    """Unix time."""
    component: LogComponent
    worker: str
    level: LogLevel
    text: str
    n_left_out: int = 0
    """More than 0 where this is no line, but says how many of this worker are missing here."""


class LogReader:
    def __init__(
        self, transport: Transport, run: RunId, *, follow: bool, reconnect_s: float
    ) -> None:
        self._transport = transport
        self._path = f"/v1/runs/{quote(run, safe='')}/logs"
        self._offset = 0
        self._follow = follow
        self._read: dict[str, int] = {}
        """Lines of each source that were handed out, or known to be missing."""
        self._reconnect_s = reconnect_s
        self._waits = self._transport.backoff.delays()
        self._open_s = math.inf
        """Since when there is a connection."""
        self._has_news = False
        self._failing_s = time.monotonic()
        """Since when no connection has brought anything new."""
        self._said_s = 0.0
        """When the last line was said of which we know."""

    async def read(self) -> AsyncGenerator[LogEntry]:
        """Raises the error of the connection after `reconnect_s` without one, or without anything new."""
        while True:
            self._open_s = math.inf
            try:
                async with contextlib.aclosing(self._connection()) as views:
                    async for view in views:
                        for entry in self._entries(view.logged):
                            self._note_news()
                            yield entry
                return
            except (GatewayUnreachable, GatewayBusy):
                if not self._is_patient():
                    raise
            await asyncio.sleep(next(self._waits))

    def _is_patient(self) -> bool:
        """Whether to connect again after a connection that ended. One that was long quiet while we followed was a good one."""
        now_s = time.monotonic()
        was_quiet = self._follow and now_s - self._open_s > self._reconnect_s
        if self._has_news or was_quiet:
            self._failing_s, self._has_news = now_s, False
        return now_s - self._failing_s < self._reconnect_s

    def _note_news(self) -> None:
        self._has_news, self._waits = True, self._transport.backoff.delays()

    async def _connection(self) -> AsyncGenerator[LogView]:
        query = urlencode({"offset": self._offset, "follow": str(self._follow).lower()})
        async with self._transport.lines(f"{self._path}?{query}") as lines:
            self._open_s = time.monotonic()
            async for line in lines:
                if line.strip():
                    yield self._accept(line)

    def _accept(self, line: bytes) -> LogView:
        try:
            view = LogView.model_validate_json(line)
        except ValidationError as error:
            raise GatewayError(
                "The gateway sent a log that this version of warren can't read",
                hint="Install the gateway's version of warren-rl; `warren doctor` compares the two.",
            ) from error
        if view.offset > self._offset:
            self._offset = view.offset
            self._note_news()
        return view

    def _entries(self, logged: RunLogged) -> Iterator[LogEntry]:
        for line in logged.lines:
            self._said_s = max(self._said_s, line.at_s)
            yield from self._gap(logged, line.number - 1)
            if line.number > self._read.get(logged.source, 0):
                self._read[logged.source] = line.number
                yield LogEntry(
                    at_s=line.at_s,
                    component=logged.component,
                    worker=logged.worker,
                    level=line.level,
                    text=line.text,
                )
        yield from self._gap(logged, logged.n_logged)

    def _gap(self, logged: RunLogged, until: int) -> Iterator[LogEntry]:
        """What is missing up to the line with this number, at the time of the last line that we know."""
        if (n_missing := until - self._read.get(logged.source, 0)) > 0:
            self._read[logged.source] = until
            yield LogEntry(
                at_s=self._said_s or time.time(),
                component=logged.component,
                worker=logged.worker,
                level=LogLevel.WARNING,
                text=f"{n_missing} lines were left out",
                n_left_out=n_missing,
            )
