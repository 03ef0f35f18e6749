"""Sends log lines of runs to their streams, in the background.

Invariants: who logs never waits, from whatever thread. What can't be sent is left out, and counted: a broker
that is away, or a log that was deleted with its run, costs nothing but lines. Runs that were not heard of for
longest are forgotten first; should one come back, it does so as a new source.
"""

import asyncio
import contextlib
import logging
import threading
import time
from collections import OrderedDict
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from contextvars import ContextVar

from warren_broker.errors import BrokerError, NotAllowed, Unroutable
from warren_broker.port import WorkBroker
from warren_broker.run_logs.lines import RunLines
from warren_broker.topology import run_log
from warren_schemas.codec.wire import encode
from warren_schemas.envelope import Envelope
from warren_schemas.events import LogComponent, LogLevel, RunLogged
from warren_schemas.ids import RunId

MAX_RUNS = 1024
TELL_S = 1.0
"""So soon is told how many lines were left out, where no other follows."""
SEND_S = 30.0

log = logging.getLogger(__name__)


class RunLogs:
    """The logs of runs that one component in one process sends."""

    def __init__(self, broker: WorkBroker, component: LogComponent, worker: str) -> None:
        self._broker = broker
        self._component = component
        self._worker = worker
        self._runs: OrderedDict[RunId, RunLines] = OrderedDict()
        self._lock = threading.Lock()
        self._changed = asyncio.Event()
        self._closing = asyncio.Event()
        self._loop = asyncio.get_running_loop()

    def add(self, run: RunId, level: LogLevel, text: str) -> None:
        """From any thread."""
        now_s = time.monotonic()
        with self._lock:
            if (lines := self._runs.get(run)) is None:
                lines = self._runs[run] = RunLines(now_s)
            self._runs.move_to_end(run)
            was_told = lines.is_told
            lines.add(level, text, at_s=time.time(), now_s=now_s)
            while len(self._runs) > MAX_RUNS:
                self._runs.popitem(last=False)
        if was_told:
            with contextlib.suppress(RuntimeError):  # the loop is closed: nobody sends any more
                self._loop.call_soon_threadsafe(self._changed.set)

    async def send(self) -> None:
        """What is added, in order, until `close` and all is sent."""
        while not self._closing.is_set():
            await self._changed.wait()
            self._changed.clear()
            await self._send_all(with_counts=False)
            if self._has_untold():
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(TELL_S):
                        await self._closing.wait()
                await self._send_all(with_counts=True)
        await self._send_all(with_counts=True)

    def close(self) -> None:
        """Nobody logs any more."""
        self._closing.set()
        self._changed.set()

    def _has_untold(self) -> bool:
        with self._lock:
            return any(not lines.is_told for lines in self._runs.values())

    async def _send_all(self, *, with_counts: bool) -> None:
        for run, item in self._taken(with_counts=with_counts):
            try:
                await self._broker.publish(
                    run_log(run), encode([item]), message_id=item.envelope.id, timeout_s=SEND_S
                )
            except (Unroutable, NotAllowed):
                pass  # the run is deleted, or was made before there were logs
            except BrokerError as error:
                log.debug("%d lines of %s are left out: %s", len(item.lines), run, error)

    def _taken(self, *, with_counts: bool) -> list[tuple[RunId, RunLogged]]:
        with self._lock:
            return [
                (run, self._item(run, lines))
                for run, lines in self._runs.items()
                if lines.has_waiting or (with_counts and not lines.is_told)
            ]

    def _item(self, run: RunId, lines: RunLines) -> RunLogged:
        return RunLogged(
            envelope=Envelope(run=run),
            component=self._component,
            worker=self._worker,
            source=lines.source,
            n_logged=lines.n_logged,
            lines=lines.take(),
        )


_of_this_component: ContextVar[RunLogs | None] = ContextVar("logs of runs", default=None)
_LEAVE_S = 1.0


@asynccontextmanager
async def sending_run_logs(
    broker: WorkBroker, component: LogComponent, worker: str
) -> AsyncGenerator[None]:
    """What is told of runs meanwhile, by this task and those that it starts, goes to their logs."""
    logs = RunLogs(broker, component, worker)
    token = _of_this_component.set(logs)
    sending = asyncio.create_task(logs.send(), name=f"logs of runs, {worker}")
    try:
        yield
    finally:
        _of_this_component.reset(token)
        logs.close()
        await asyncio.wait([sending], timeout=_LEAVE_S)
        sending.cancel()
        await asyncio.wait([sending])


def logs_of_this_component() -> RunLogs | None:
    """Where `sending_run_logs` is around us."""
    return _of_this_component.get()
