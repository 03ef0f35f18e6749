"""Writes one run's archive: reads what the run has consumed, and writes it part by part.

What the stream has lost before it was read, and what can't be read, is written down as missing. Each
episode is written once: of its endings the one that the run counted (see `fates`).
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence

from warren_broker.errors import BrokerUnavailable
from warren_broker.inbox import Claim, Inbox
from warren_gateway.archive.folder import Folder
from warren_gateway.position import Position
from warren_gateway.recordings.fates import counts
from warren_gateway.recordings.stored import Recordings
from warren_schemas.episode import EpisodeEnded
from warren_schemas.events import RunEvent
from warren_schemas.http import TrajectoryView
from warren_schemas.ids import RunId

GONE_S = 60.0
"""What the run has read, and does not come for this long, is no longer kept or the broker is away."""

log = logging.getLogger(__name__)


class ArchiveWriter:
    def __init__(
        self,
        recordings: Recordings,
        run: RunId,
        folder: Folder,
        news: Inbox[RunEvent],
        endings: Inbox[EpisodeEnded],
        lost: Callable[[range], Awaitable[Sequence[range]]],
    ) -> None:
        """`lost` says which of the offsets that were passed over are a loss."""
        self._recordings = recordings
        self._run = run
        self._folder = folder
        self._news = news
        self._endings = endings
        self._lost = lost
        self._ahead: Sequence[Claim[EpisodeEnded]] = ()
        """A message of the next part, which had to be read to see the end of this one."""
        self._next = 0
        """The offset behind what was read."""
        self._missing: list[range] = []

    async def keep(self, first: int) -> None:
        """Write every part from this message on; return when the run's last one is written.

        Raises `BrokerUnavailable`, `StoreUnavailable`, `OSError`.
        """
        self._next = first
        is_last, part_messages = False, self._folder.part_messages
        while not is_last:
            end, is_last = await self._until_consumed(first + part_messages)
            if end > first:
                views = await self._read(end)
                missing = [lost for gap in self._missing if (lost := _within(gap, first, end))]
                await asyncio.to_thread(self._folder.write, first, views, missing)
            first += part_messages
        await asyncio.to_thread(self._folder.finish)

    async def _until_consumed(self, end: int) -> tuple[int, bool]:
        """Wait until the run has consumed all before this message, or has ended earlier."""
        while True:
            consumed, is_over = await self._recordings.progress(self._run)
            if consumed > end or (consumed == end and not is_over):
                return end, False
            if is_over:
                return consumed, True
            for claim in await anext(self._news):
                claim.done()

    async def _read(self, end: int) -> list[TrajectoryView]:
        """What stands before this message, and was not read yet."""
        views: list[TrajectoryView] = []
        offset = -1
        while offset < end - 1:
            claims = self._ahead or await self._receive()
            self._ahead = ()
            offset = claims[0].offset or 0
            await self._note_gap(range(self._next, offset))
            self._next = offset + 1
            if offset >= end:
                self._ahead = claims
                break
            views += await self._views(claims, offset)
        return views

    async def _note_gap(self, passed_over: range) -> None:
        for gap in await self._lost(passed_over) if passed_over else ():
            self._missing.append(gap)
            log.warning(
                "messages %d to %d of the trajectories of %s are missing or unreadable, and not archived",
                gap[0],
                gap[-1],
                self._run,
            )

    async def _receive(self) -> Sequence[Claim[EpisodeEnded]]:
        try:
            async with asyncio.timeout(GONE_S):
                return await anext(self._endings)
        except TimeoutError as error:
            raise BrokerUnavailable(f"{self._run} gave nothing for {GONE_S:g} s") from error

    async def _views(
        self, claims: Sequence[Claim[EpisodeEnded]], offset: int
    ) -> list[TrajectoryView]:
        fates = await self._recordings.fates(self._run, [claim.item for claim in claims])
        views: list[TrajectoryView] = []
        for place, claim in enumerate(claims):
            view = fates.view(claim.item, Position(offset, place))
            views += [view] if counts(view) else []
            claim.done()
        return views


def _within(gap: range, first: int, end: int) -> range:
    return range(max(gap.start, first), min(gap.stop, end))
