"""A run's log as lines of JSON: what the coordinator, the trainer, samplers and env workers say while they work for it.

Invariants
- All that is kept comes in the order of the stream; the reader tells twins and gaps by the numbers of the lines.
- The answer ends with what was there when it began, with `follow` with what was there when the run had ended. That place
  is found by a mark that the gateway appends: an answer that can't get there is cut off, so that nobody takes a part
  for all. Of a run that is over, a mark of the last minute will do (`log_marks`).
- A quiet connection is kept alive by empty lines.
"""

import asyncio
import contextlib
import logging
from collections.abc import Sequence

from aiohttp import web

from warren_broker.errors import BrokerError
from warren_broker.inbox import Claim, Inbox, follow
from warren_broker.topology import run_events, run_log
from warren_gateway.api.route import Call, Route
from warren_gateway.following.encoded_events import is_last
from warren_gateway.runs.owned import NoSuchRun
from warren_gateway.store.store import StoreUnavailable
from warren_gateway.until_first import until_first
from warren_schemas.base import Frozen
from warren_schemas.codec.wire import encode
from warren_schemas.config import NonNegativeInt
from warren_schemas.envelope import Envelope
from warren_schemas.events import LogComponent, RunEvent, RunLogged
from warren_schemas.http import LogView
from warren_schemas.ids import RunId, new_id
from warren_schemas.users.access import KeyScope

PING_S = 10.0
PREFETCH = 8
MARK_S = 10.0
_CUT_OFF = (ConnectionResetError, BrokerError, StopAsyncIteration)
"""Either side or the broker is away, or the run was deleted meanwhile."""

log = logging.getLogger(__name__)


class ReadLog(Frozen):
    offset: NonNegativeInt = 0
    """Begin at this offset."""
    follow: bool = False
    """Go on until the run has ended."""


async def run_logs(call: Call[ReadLog]) -> web.StreamResponse:
    run = await call.services.runs.show(call.viewer, call.run)
    broker, follows = call.services.broker, call.takes.follow and not run.state.is_final
    stream, start = run_log(run.id), call.takes.offset or "first"
    feed = _Feed(call, RunId(run.id), is_over=run.state.is_final)
    with call.services.budgets.streams.hold(call.owner, 2 if follows else 1):
        async with (
            follow(broker, stream, RunLogged, start=start, prefetch=PREFETCH, aside=True) as inbox,
            follow(broker, run_events(run.id), RunEvent, start="next", aside=True)
            if follows
            else contextlib.nullcontext() as events,
        ):
            await until_first(feed.pump(inbox), feed.find_end(events), call.over())
    if call.is_over and not feed.is_whole:
        feed.cut_off("the gateway stops, or the key is no longer good")
    return feed.response


class _Feed:
    """From the stream to one client."""

    def __init__(self, call: Call[ReadLog], run: RunId, *, is_over: bool) -> None:
        self.response = web.StreamResponse(headers={"Content-Type": "application/x-ndjson"})
        self._call = call
        self._run = run
        self._is_over, marks = is_over, call.services.log_marks
        self._known_mark = marks.find(run, call.takes.offset) if is_over else None
        self._mark = self._known_mark or new_id("mark")
        self.is_whole = False

    async def find_end(self, events: Inbox[RunEvent] | None) -> None:
        """Set the mark now, or once the run is over; returns only where that can't be done."""
        try:
            if events is not None:
                await self._until_over(events)
            if self._known_mark is None:
                await self._set_mark()
        except (BrokerError, StoreUnavailable, NoSuchRun) as error:
            return self.cut_off(error)
        await asyncio.get_running_loop().create_future()

    async def _set_mark(self) -> None:
        mark = RunLogged(
            envelope=Envelope(run=self._run),
            component=LogComponent.COORDINATOR,
            worker="",
            source=self._mark,
            n_logged=0,
        )
        await self._call.services.broker.publish(
            run_log(self._run), encode([mark]), message_id=mark.envelope.id, timeout_s=MARK_S
        )

    async def _until_over(self, events: Inbox[RunEvent]) -> None:
        """It may have ended before anybody listened."""
        if (await self._call.services.runs.show(self._call.viewer, self._run)).state.is_final:
            return
        async for claims in events:
            for claim in claims:
                claim.done()
            if any(is_last(claim.item) for claim in claims):
                return

    async def pump(self, inbox: Inbox[RunLogged]) -> None:
        """Send until the mark; cut the connection where it can't be reached."""
        try:
            await self.response.prepare(self._call.request)
            while not self.is_whole:
                await self._send(await self._next(inbox))
            await self.response.write_eof()
        except _CUT_OFF as error:
            self.cut_off(error)

    def cut_off(self, reason: object) -> None:
        """So that nobody takes a part for all."""
        log.warning("an answer with a run's log was cut off: %s", reason)
        if self._call.request.transport is not None:
            self._call.request.transport.abort()

    async def _next(self, inbox: Inbox[RunLogged]) -> Sequence[Claim[RunLogged]]:
        getting = asyncio.ensure_future(anext(inbox))
        try:
            while not (await asyncio.wait({getting}, timeout=PING_S))[0]:
                await self.response.write(b"\n")
            return getting.result()
        finally:
            getting.cancel()
            with contextlib.suppress(asyncio.CancelledError, BrokerError, StopAsyncIteration):
                await getting

    async def _send(self, claims: Sequence[Claim[RunLogged]]) -> None:
        offset = claims[0].offset or 0
        for claim in claims:
            if claim.item.source == self._mark:
                self.is_whole = True
                if self._is_over:
                    self._call.services.log_marks.keep(self._run, self._mark, offset)
            elif claim.item.n_logged:  # no other reader's mark
                view = LogView(offset=offset, logged=claim.item)
                await self.response.write(view.model_dump_json().encode() + b"\n")
            claim.done()


ROUTES = (
    Route(
        "GET",
        "/v1/runs/{run}/logs",
        run_logs,
        takes=ReadLog,
        answers=LogView,
        summary="Read what all parts said while they worked for a run, one JSON object per message",
        scope=KeyScope.READ,
        errors=(404, 422, 429),
        media_type="application/x-ndjson",
    ),
)
