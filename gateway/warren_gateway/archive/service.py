"""The archivist: copies the trajectories of runs that ask for it from their streams to files.

It is a reader like any other: a run never waits for it, and what it missed it reads later. A part is
written once the run has consumed all of it, so every line says what became of its trajectory. Several
gateways may archive the same run; they write the same files.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from functools import partial
from typing import TypeVar

from warren_broker.errors import BrokerError
from warren_broker.inbox import follow
from warren_broker.port import Broker
from warren_broker.topology import run_events
from warren_gateway.archive.folder import PART_MESSAGES, Folder
from warren_gateway.archive.gaps import lost
from warren_gateway.archive.writer import ArchiveWriter
from warren_gateway.recordings.stored import Recordings
from warren_gateway.runs.streams import recording
from warren_gateway.store.store import StoreUnavailable
from warren_schemas.episode import EpisodeEnded
from warren_schemas.events import RunEvent
from warren_schemas.ids import RunId, new_id

T = TypeVar("T")

RETRY_S = 10.0
PREFETCH = 4

log = logging.getLogger(__name__)


class Archive:
    """Invariant: a run has at most one archivist here, and its failure ends only its own archive."""

    def __init__(
        self,
        recordings: Recordings,
        broker: Broker,
        url: str,
        *,
        part_messages: int = PART_MESSAGES,
        retry_s: float = RETRY_S,
    ) -> None:
        self._part_messages = part_messages
        self._retry_s = retry_s
        self._recordings = recordings
        self._broker = broker
        self._url = url
        self._kept: set[RunId] = set()
        self._wanted: asyncio.Queue[RunId] = asyncio.Queue()

    def notify(self, run: RunId) -> None:
        """There may be a run that nobody archives yet."""
        if run not in self._kept:
            self._kept.add(run)
            self._wanted.put_nowait(run)

    async def run(self) -> None:
        """Take up what was left unfinished, then whatever comes; never returns."""
        for run in await self._patiently(self._recordings.to_archive):
            self.notify(run)
        async with asyncio.TaskGroup() as tasks:
            while True:
                run = await self._wanted.get()
                tasks.create_task(self._supervise(run), name=f"archive {run}")

    async def _supervise(self, run: RunId) -> None:
        try:
            await self._patiently(lambda: self._archive(run))
        except Exception:
            log.exception("%s: the trajectories of %s are archived no more", new_id("error"), run)
        finally:
            self._kept.discard(run)

    async def _archive(self, run: RunId) -> None:
        config = await self._recordings.config(run)
        if config is None or config.retention.archive is None:
            return
        form = config.retention.archive
        opening = partial(Folder, self._url, run, form, part_messages=self._part_messages)
        folder = await asyncio.to_thread(opening)
        if await asyncio.to_thread(folder.is_finished):
            return
        first = await asyncio.to_thread(folder.next_offset)
        events, stream = run_events(run), recording(run, config)
        async with (
            follow(self._broker, events, RunEvent, start="next") as news,
            follow(self._broker, stream, EpisodeEnded, start=first, prefetch=PREFETCH) as endings,
        ):
            lost_here = partial(lost, self._broker, stream)
            await ArchiveWriter(self._recordings, run, folder, news, endings, lost_here).keep(first)

    async def _patiently(self, work: Callable[[], Awaitable[T]]) -> T:
        """Tried again until store, broker and disk are there."""
        while True:
            try:
                return await work()
            except (BrokerError, StoreUnavailable, OSError) as error:
                log.warning("the archive waits: %s", error)
            await asyncio.sleep(self._retry_s)
