"""A run's recorded trajectories as lines of JSON.

Invariants
- Each episode comes once, with the ending that the run counted (see `fates`), and in the order of the
  stream; `offset` of the last line plus one goes on exactly behind it, at any gateway. So nothing is sent
  before the run has read it and decided. With `all_attempts` every recorded ending comes, as soon as it
  is recorded.
- The answer ends where the run's coordinator had read when it began, with `follow` where it has read
  when the run ends. An answer that can't get there, be it that the gateway stops, is refused (410) or cut
  off, so that nobody takes a part for all.
- The broker is only asked for more once the client has taken what it was sent. Empty lines keep a
  quiet connection alive, and find out when nobody is there any more.
"""

import asyncio
import logging
import math
import time
from collections.abc import Sequence

from aiohttp import web

from warren_broker.errors import BrokerError
from warren_broker.inbox import Claim, Inbox, follow
from warren_broker.port import FromTime, StreamStart
from warren_broker.topology import run_events
from warren_gateway.api.problems import Refusal
from warren_gateway.api.route import Call, Route
from warren_gateway.position import Position
from warren_gateway.recordings.fates import counts
from warren_gateway.recordings.stored import Recordings
from warren_gateway.runs.streams import recording
from warren_gateway.store.store import StoreUnavailable
from warren_gateway.until_first import until_first
from warren_schemas.base import Frozen
from warren_schemas.config import NonNegativeFloat, NonNegativeInt, PositiveInt
from warren_schemas.episode import EpisodeEnded
from warren_schemas.events import RunEvent
from warren_schemas.http import Problem, RunView, TrajectoryView
from warren_schemas.users.access import KeyScope

PREFETCH = 4
LINES = "application/x-ndjson"
MAX_SKEW_S = 60.0
"""Between the broker's clock, which says when something was recorded, and the gateway's."""

log = logging.getLogger(__name__)


class ReadTrajectories(Frozen):
    offset: NonNegativeInt | None = None
    """Begin at this offset; left out, at the oldest one that is kept."""
    since_s: NonNegativeFloat | None = None
    """Begin with what was recorded at this Unix time."""
    limit: PositiveInt | None = None
    """Most trajectories to answer."""
    follow: bool = False
    """Go on until the run has ended."""
    all_attempts: bool = False
    """Answer every recorded ending, superseded ones and duplicates too, not each episode once."""


async def run_trajectories(call: Call[ReadTrajectories]) -> web.StreamResponse:
    takes, broker = call.takes, call.services.broker
    if takes.offset is not None and takes.since_s is not None:
        raise _refusal(422, "invalid_query", "give either offset or since_s, not both")
    run = await call.services.runs.show(call.viewer, call.run)
    if run.config is None:
        raise _refusal(409, "newer_run", f"{run.id} is of a newer gateway; ask that one")
    if _is_after(takes, run):
        return web.Response(content_type=LINES)
    stream = recording(run.id, run.config)
    n_readers = 2 if takes.follow else 1  # it reads the run's events too
    with call.services.budgets.streams.hold(call.owner, n_readers):
        async with follow(
            broker, stream, EpisodeEnded, start=_start(takes), prefetch=PREFETCH, aside=True
        ) as inbox:
            feed = _Feed(call, inbox)
            await until_first(feed.pump(), feed.watch(), call.over())
    if call.is_over and not feed.is_whole:
        feed.cut_off("the gateway stops, or the key is no longer good")
    return feed.response


def _is_after(takes: ReadTrajectories, run: RunView) -> bool:
    """Whether all that there will be was recorded before the time that is asked for."""
    until_s = run.ended_s or (math.inf if takes.follow else time.time())
    return takes.since_s is not None and takes.since_s > until_s + MAX_SKEW_S


def _start(takes: ReadTrajectories) -> StreamStart:
    if takes.since_s is not None:
        return FromTime(takes.since_s)
    return Position.of(takes.offset or 0).offset


class _Gone(Exception):
    """What should be in the stream is not: it was older than its retention."""


class _Feed:
    """From the stream to one client."""

    def __init__(self, call: Call[ReadTrajectories], inbox: Inbox[EpisodeEnded]) -> None:
        self.response = web.StreamResponse(headers={"Content-Type": LINES})
        self._call = call
        self._takes = call.takes
        self._recordings: Recordings = call.services.recordings
        self._timings = call.services.timings.trajectories
        self._inbox = inbox
        self._next = Position.of(call.takes.offset or 0)
        self._end: int | None = None
        self._end_is_known = asyncio.Event()
        self._consumed = 0
        """How far the run has read its stream, as far as we know."""
        self._progress = asyncio.Event()
        """Something of these three is news."""
        self._n_sent = 0
        self.is_whole = False

    async def watch(self) -> None:
        """Find out where the answer ends: now, or when the run does. Never returns."""
        self._end = await (self._final_end() if self._takes.follow else self._where())
        self._end_is_known.set()
        self._progress.set()
        await asyncio.get_running_loop().create_future()

    async def _final_end(self) -> int:
        """Keep `_consumed` up to date until the run has ended."""
        stream = run_events(self._call.run)
        async with follow(
            self._call.services.broker, stream, RunEvent, start="next", aside=True
        ) as events:
            while True:
                self._consumed, is_over = await self._recordings.progress(self._call.run)
                if is_over:
                    return self._consumed
                self._progress.set()
                for claim in await anext(events):
                    claim.done()

    async def pump(self) -> None:
        """Send until the end; cut the connection where it can't be reached.

        Raises `Refusal` while nothing was sent yet.
        """
        try:
            await self._pump()
            await self._begin()
            await self.response.write_eof()
            self.is_whole = True
        except _Gone as error:
            if not self.response.prepared:
                raise _refusal(410, "trajectories_gone", str(error)) from error
            self.cut_off(error)
        except (ConnectionResetError, BrokerError, StoreUnavailable) as error:
            if not self.response.prepared:
                raise
            self.cut_off(error)

    def cut_off(self, reason: object) -> None:
        """So that nobody takes a part for all."""
        log.warning("an answer with trajectories was cut off: %s", reason)
        if self._call.request.transport is not None:
            self._call.request.transport.abort()

    async def _begin(self) -> None:
        if not self.response.prepared:
            await self.response.prepare(self._call.request)

    async def _pump(self) -> None:
        quiet_s = 0.0
        while not self._is_done():
            claims = await self._receive()
            if claims:
                quiet_s = 0.0
                await self._until_decided(claims[0].offset or 0)
                await self._send(claims)
                continue
            quiet_s += self._timings.ping_s
            if self._end is None or self.response.prepared:
                await self._ping()
            if quiet_s >= self._timings.gone_s and self._end is not None:
                if self._takes.since_s is not None:
                    return  # whatever is kept of that time would have come
                raise _Gone(f"the trajectories of {self._call.run} from {self._next} on are gone")

    async def _until_decided(self, offset: int) -> None:
        """Wait until the run has read this message, or has ended, unless all endings are wanted."""
        while not self._takes.all_attempts and self._end is None and self._consumed <= offset:
            self._progress.clear()
            try:
                async with asyncio.timeout(self._timings.ping_s):
                    await self._progress.wait()
            except TimeoutError:
                await self._ping()

    async def _ping(self) -> None:
        await self._begin()
        await self.response.write(b"\n")

    async def _receive(self) -> Sequence[Claim[EpisodeEnded]]:
        """The next message; nothing when none came for a while, or the end is known now."""
        getting = asyncio.ensure_future(anext(self._inbox))
        knowing = asyncio.ensure_future(self._end_is_known.wait())
        waiting = {getting} if self._end_is_known.is_set() else {getting, knowing}
        try:
            await asyncio.wait(
                waiting, timeout=self._timings.ping_s, return_when=asyncio.FIRST_COMPLETED
            )
            return getting.result() if getting.done() else ()
        finally:
            getting.cancel()
            knowing.cancel()
            await asyncio.gather(getting, knowing, return_exceptions=True)

    async def _send(self, claims: Sequence[Claim[EpisodeEnded]]) -> None:
        offset = claims[0].offset or 0
        await self._begin()
        fates = await self._recordings.fates(self._call.run, [claim.item for claim in claims])
        for place, claim in enumerate(claims):
            position = Position(offset, place)
            if position >= self._next and not self._is_done():
                await self._send_if_wanted(fates.view(claim.item, position))
            claim.done()
        self._next = max(self._next, Position(offset + 1))

    async def _send_if_wanted(self, view: TrajectoryView) -> None:
        if self._takes.all_attempts or counts(view):
            await self.response.write(view.model_dump_json().encode() + b"\n")
            self._n_sent += 1

    def _is_done(self) -> bool:
        has_enough = self._takes.limit is not None and self._n_sent >= self._takes.limit
        return has_enough or (self._end is not None and self._next.offset >= self._end)

    async def _where(self) -> int:
        return await self._recordings.end(self._call.viewer, self._call.run)


def _refusal(status: int, code: str, message: str) -> Refusal:
    return Refusal(status, Problem(code=code, message=f"{message}."))


ROUTES = (
    Route(
        "GET",
        "/v1/runs/{run}/trajectories",
        run_trajectories,
        takes=ReadTrajectories,
        answers=TrajectoryView,
        summary="Read a run's recorded trajectories, one JSON object per line",
        scope=KeyScope.READ,
        errors=(404, 409, 410, 422, 429),
        media_type=LINES,
    ),
)
