"""A run's events as server-sent events.

Invariants
- Each event comes once and in order; `Last-Event-ID` goes on exactly behind it. What the stream holds
  twice comes once also across connections: a reader that goes on looks at the `TWINS` messages before its
  place first, for a duplicate stands no further behind the first one.
- All who follow a run here share one reader (`following`). A slow client costs no memory here, and one
  that takes nothing for `send_s` is let go.
- An owner has no more streams open than the gateway's budget allows; the next one is answered 429.
- It is cut short when the gateway stops or the key is no longer good: whoever comes again is told which.
- The stream ends after the run's last event. For a run that ended long ago, whose events are no
  longer kept, it ends when nothing came for `quiet_s`; never before all of them have left the outbox,
  where those of a gateway that died lie until another one sends them.
"""

import asyncio
import logging
from collections.abc import AsyncIterator

from aiohttp import web
from aiohttp_sse import EventSourceResponse, sse_response

from warren_broker.errors import BrokerError
from warren_broker.topology import run_events
from warren_gateway.api.problems import Refusal
from warren_gateway.api.route import Call, Nothing, Route
from warren_gateway.following.encoded_events import EncodedEvent, EncodedEvents
from warren_gateway.position import Position
from warren_gateway.recent import Recent
from warren_gateway.runs.service import Runs
from warren_gateway.store.outbox import PAGE
from warren_gateway.store.store import StoreUnavailable
from warren_gateway.timings import EventTimings
from warren_gateway.until_first import until_first
from warren_schemas.events import RunEvent
from warren_schemas.http import Problem
from warren_schemas.users.access import KeyScope

TWINS = 2 * PAGE
"""A relay sends again no more than a page, and two may do so side by side."""

log = logging.getLogger(__name__)


async def run_events_live(call: Call[Nothing]) -> web.StreamResponse:
    run = await call.services.runs.show(call.viewer, call.run)
    after = _last_event(call.request)
    start, timings = max(0, after.offset - TWINS) if after else 0, call.services.timings.events
    with call.services.budgets.streams.hold(call.owner):
        async with (
            call.services.followers.follow(run_events(run.id), start) as told,
            sse_response(
                call.request, ping_interval=timings.ping_s, send_timeout=timings.send_s
            ) as response,
        ):
            feed = _Feed(told, response, after)
            over = [_watch_end(call, run.id, feed, timings)] if run.state.is_final else []
            await until_first(feed.pump(), response.wait(), call.over(), *over)
    return response


async def _watch_end(call: Call[Nothing], run: str, feed: "_Feed", timings: EventTimings) -> None:
    """Return once nothing more will come; cut the connection where that can't be found out."""
    try:
        await _until_sent(call.services.runs, run, timings)
    except StoreUnavailable as error:
        log.warning("a stream of events was cut off: %s", error)
        if call.request.transport is not None:
            call.request.transport.abort()  # so that nobody takes it for the end
        return
    await feed.until_quiet(timings.quiet_s)


async def _until_sent(runs: Runs, run: str, timings: EventTimings) -> None:
    """Return once all events of a run that is over are in its stream.

    Raises `StoreUnavailable` when the store has not answered for `store_away_s`.
    """
    now_s = asyncio.get_running_loop().time
    answered_s = now_s()
    while True:
        try:
            if not await runs.has_unsent_events(run):
                return
            answered_s = now_s()
        except StoreUnavailable:
            if now_s() - answered_s > timings.store_away_s:
                raise
        await asyncio.sleep(timings.look_s)


class _Feed:
    """From the stream to one client."""

    def __init__(
        self,
        told: AsyncIterator[EncodedEvents],
        response: EventSourceResponse,
        after: Position | None,
    ) -> None:
        self._told = told
        self._response = response
        self._after = after
        self._n_taken = 0
        self._sent = Recent()

    async def pump(self) -> None:
        """Send until the last event, or until either side is gone."""
        try:
            await self._pump()
        except TimeoutError:
            log.info("a stream of events was cut off: its client took nothing for too long")
        except ConnectionResetError as error:
            log.debug("a stream of events ended early: %s", error)
        except BrokerError as error:
            log.warning("a stream of events was cut off: %s", error)

    async def until_quiet(self, quiet_s: float) -> None:
        """Return when nothing came for this long."""
        n_before = -1
        while n_before != self._n_taken:
            n_before = self._n_taken
            await asyncio.sleep(quiet_s)

    async def _pump(self) -> None:
        async for message in self._told:
            for place, event in enumerate(message.events):
                await self._send(Position(message.offset, place), event)
                self._n_taken += 1
                if event.is_last:
                    return

    async def _send(self, position: Position, event: EncodedEvent) -> None:
        is_new = self._sent.add(event.id)
        if not is_new or (self._after is not None and position <= self._after):
            return
        await self._response.send(event.json, id=str(position), event=event.kind)


def _last_event(request: web.Request) -> Position | None:
    text = request.headers.get("Last-Event-ID", "").strip()
    try:
        return Position.parse(text) if text else None
    except ValueError as error:
        problem = Problem(
            code="invalid_last_event_id",
            message=f"Last-Event-ID: {error}.",
            hint="Send the id of the last event that you received, or omit the header.",
        )
        raise Refusal(422, problem) from error


ROUTES = (
    Route(
        "GET",
        "/v1/runs/{run}/events",
        run_events_live,
        takes=Nothing,
        answers=RunEvent,
        summary="Stream a run's events from the first, or after Last-Event-ID",
        scope=KeyScope.READ,
        errors=(404, 422, 429),
        media_type="text/event-stream",
    ),
)
