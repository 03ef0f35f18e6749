"""Leases of a client on runs that end with it, renewed while its process lives.

Invariants
- Renewals come from a thread of their own, so a program that computes for minutes, or stands at a prompt, keeps
  its runs; a process that is killed, and a client that is closed, renews no more.
- A gateway that is away is asked again until it is back; a run that is over, or that its owner has let go
  (`on_disconnect=detach`), is renewed no more.
"""

import asyncio
import logging
import threading
from typing import Protocol
from urllib.parse import quote

from warren.connection.loop_thread import LoopThread
from warren.connection.transport import Transport
from warren.errors import GatewayBusy, GatewayError, GatewayUnreachable
from warren_schemas.http.runs import ClientLease
from warren_schemas.ids import RunId

RENEWALS = 4
"""In the time of a lease."""

log = logging.getLogger(__name__)


class OpensTransport(Protocol):
    def __call__(self, *, retry_s: float) -> Transport: ...


class Renewals:
    """`begin` and `stop` may be called from any thread."""

    def __init__(self, open_transport: OpensTransport) -> None:
        self._open_transport = open_transport
        self._lock = threading.Lock()
        self._thread: LoopThread | None = None
        self._tasks: dict[RunId, asyncio.Task[None]] = {}

    def begin(self, run: RunId, lease_s: float) -> None:
        """Renew the lease on this run from now on; beginning again changes nothing."""
        with self._lock:
            self._thread = self._thread or LoopThread()
            self._thread.call(self._start(run, lease_s))

    def stop(self) -> None:
        """Renew no more."""
        with self._lock:
            thread, self._thread = self._thread, None
        if thread is not None:
            thread.stop()
            self._tasks.clear()

    async def _start(self, run: RunId, lease_s: float) -> None:
        if run not in self._tasks:
            renewing = self._renew(run, lease_s / RENEWALS)
            self._tasks[run] = asyncio.create_task(renewing, name=f"lease on {run}")

    async def _renew(self, run: RunId, every_s: float) -> None:
        transport = self._open_transport(retry_s=every_s)
        await transport.open()
        try:
            await self._go_on(transport, run, every_s)
        except GatewayError as error:
            level = logging.DEBUG if error.code == "run_has_ended" else logging.WARNING
            log.log(level, "the lease on %s is renewed no more: %s", run, error.message)
        finally:
            await transport.close()

    async def _go_on(self, transport: Transport, run: RunId, every_s: float) -> None:
        path = f"/v1/runs/{quote(run, safe='')}/renew"
        while True:
            await asyncio.sleep(every_s)
            try:
                lease = await transport.post(path, ClientLease)
            except (GatewayUnreachable, GatewayBusy) as error:
                log.debug("the lease on %s: %s", run, error.message)
                continue
            if lease.state.is_final:
                return
