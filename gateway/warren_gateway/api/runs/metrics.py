"""A run's metrics as lines of JSON, one for each step and evaluation.

Invariants
- Rows come in the order of their numbers, each once; `after` goes on exactly behind one.
- Without `follow` the answer is what is stored by now. With it, it ends once the run is over and all
  was sent; an answer that can't get there is cut off, so that nobody takes a part for all.
- Nothing is missed between the store and the events: a row is stored before the event that tells of
  it, and events are listened to before the store is read.
"""

import asyncio
import contextlib
import logging
from collections.abc import Sequence

from aiohttp import web

from warren_broker.errors import BrokerError
from warren_broker.inbox import Inbox, follow
from warren_broker.topology import run_events
from warren_gateway.api.route import Call, Route
from warren_gateway.runs.owned import NoSuchRun
from warren_gateway.store.store import StoreUnavailable
from warren_gateway.until_first import until_first
from warren_schemas.base import Frozen
from warren_schemas.config import NonNegativeInt
from warren_schemas.events import RunEvent
from warren_schemas.http import MetricsView
from warren_schemas.users.access import KeyScope

PING_S = 10.0
_CUT_OFF = (ConnectionResetError, BrokerError, StoreUnavailable, NoSuchRun, StopAsyncIteration)
"""Either side, the broker or the store is away, or the run was deleted meanwhile."""

log = logging.getLogger(__name__)


class ReadMetrics(Frozen):
    after: NonNegativeInt = 0
    """Begin behind the row with this number."""
    follow: bool = False
    """Go on until the run has ended."""


async def run_metrics(call: Call[ReadMetrics]) -> web.StreamResponse:
    await call.services.runs.show(call.viewer, call.run)
    feed = _Feed(call)
    if not call.takes.follow:
        await feed.pump(None)
        return feed.response
    stream = run_events(call.run)
    with call.services.budgets.streams.hold(call.owner):
        async with follow(call.services.broker, stream, RunEvent, start="next", aside=True) as news:
            await until_first(feed.pump(news), call.over())
    if call.is_over and not feed.is_whole:
        feed.cut_off("the gateway stops, or the key is no longer good")
    return feed.response


class _Feed:
    """From the store to one client."""

    def __init__(self, call: Call[ReadMetrics]) -> None:
        self.response = web.StreamResponse(headers={"Content-Type": "application/x-ndjson"})
        self._call = call
        self._after = call.takes.after
        self.is_whole = False

    async def pump(self, news: Inbox[RunEvent] | None) -> None:
        """Send what there is, and with `news` what comes until the run is over.

        Cuts the connection where that can't be reached.
        """
        try:
            while not await self._send_stored() and news is not None:
                await self._next_event(news)
            await self.response.write_eof()
            self.is_whole = True
        except _CUT_OFF as error:
            if not self.response.prepared:
                raise
            self.cut_off(error)

    def cut_off(self, reason: object) -> None:
        """So that nobody takes a part for all."""
        log.warning("an answer with metrics was cut off: %s", reason)
        if self._call.request.transport is not None:
            self._call.request.transport.abort()

    async def _send_stored(self) -> bool:
        """Send what is stored by now; whether no more will come."""
        while True:
            call = self._call
            page = await call.services.reports.page(call.viewer, call.run, self._after)
            await self._begin()
            if page.rows:
                await self.response.write(_lines(page.rows))
                self._after = page.rows[-1].number
            if page.has_all:
                return page.is_over

    async def _begin(self) -> None:
        if not self.response.prepared:
            await self.response.prepare(self._call.request)

    async def _next_event(self, news: Inbox[RunEvent]) -> None:
        """Return when something has happened; empty lines keep a quiet connection alive."""
        getting = asyncio.ensure_future(anext(news))
        try:
            while not (await asyncio.wait({getting}, timeout=PING_S))[0]:
                await self.response.write(b"\n")
            for claim in getting.result():
                claim.done()
        finally:
            getting.cancel()
            with contextlib.suppress(asyncio.CancelledError, BrokerError, StopAsyncIteration):
                await getting


def _lines(rows: Sequence[MetricsView]) -> bytes:
    return b"".join(row.model_dump_json().encode() + b"\n" for row in rows)


ROUTES = (
    Route(
        "GET",
        "/v1/runs/{run}/metrics",
        run_metrics,
        takes=ReadMetrics,
        answers=MetricsView,
        summary="Read a run's metrics of each step and evaluation, one JSON object per line",
        scope=KeyScope.READ,
        errors=(404, 422, 429),
        media_type="application/x-ndjson",
    ),
)
