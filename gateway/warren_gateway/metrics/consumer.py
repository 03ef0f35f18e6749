"""The metrics consumer: follows the events of every run and records what they tell.

It is a reader like any other: a run never waits for it, and what it missed it reads later. Runs that
another gateway drives are recorded there, and runs that are queued by nobody yet. File work happens in one thread.
"""

import asyncio
import logging
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import TypeVar

from sqlmodel import Session, col, select

from warren_broker.errors import BrokerError, Unroutable
from warren_broker.inbox import follow
from warren_broker.port import Broker
from warren_broker.topology import run_events
from warren_gateway.metrics import folders
from warren_gateway.metrics.recorder import Recorder
from warren_gateway.store.store import Store, StoreUnavailable
from warren_gateway.store.tables import Run
from warren_schemas.events import RunEvent, RunState
from warren_schemas.ids import RunId, new_id
from warren_schemas.tensorboard.about import About

T = TypeVar("T")

RETRY_S = 5.0

MakeRecorder = Callable[[Path, About], Recorder]

log = logging.getLogger(__name__)


class Metrics:
    """Invariant: a run has at most one recorder, and its failure ends only its own recording."""

    def __init__(
        self,
        store: Store,
        broker: Broker,
        runs_dir: Path,
        *,
        make_recorder: MakeRecorder = Recorder,
        retry_s: float = RETRY_S,
    ) -> None:
        self._make_recorder = make_recorder
        self._retry_s = retry_s
        self._store = store
        self._broker = broker
        self._runs_dir = runs_dir
        self._followed: set[RunId] = set()
        self._wanted: asyncio.Queue[RunId] = asyncio.Queue()
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="metrics")

    def notify(self, run: RunId) -> None:
        """There may be a run that nobody follows yet."""
        if run not in self._followed:
            self._followed.add(run)
            self._wanted.put_nowait(run)

    async def run(self) -> None:
        """Take up what was left unfinished, then whatever comes; never returns."""
        try:
            for run in await self._unfinished():
                self.notify(run)
            async with asyncio.TaskGroup() as tasks:
                while True:
                    run = await self._wanted.get()
                    tasks.create_task(self._supervise(run), name=f"metrics {run}")
        finally:
            self._thread.shutdown(wait=False)

    async def _supervise(self, run: RunId) -> None:
        try:
            await self._record_persistently(run)
        except Exception:
            log.exception("%s: the metrics of %s are recorded no more", new_id("error"), run)
        finally:
            self._followed.discard(run)

    async def _record_persistently(self, run: RunId) -> None:
        """Until the run has ended; a full disk or a broker that is away only costs time."""
        while True:
            try:
                return await self._record(run)
            except Unroutable:
                return log.warning("the events of %s are gone; its curves end here", run)
            except (BrokerError, StoreUnavailable, OSError) as error:
                log.warning("the metrics of %s wait: %s", run, error)
            await asyncio.sleep(self._retry_s)

    async def _record(self, run: RunId) -> None:
        about = await self._store.read(lambda session: folders.about(session, run))
        if about is None:
            return
        recorder = self._make_recorder(self._runs_dir, about)
        try:
            start = await self._in_thread(recorder.open)
            if recorder.is_complete:
                return
            async with follow(self._broker, run_events(run), RunEvent, start=start) as inbox:
                async for claims in inbox:
                    events = [claim.item for claim in claims]
                    offset = claims[0].offset or 0
                    await self._in_thread(partial(recorder.record, offset, events))
                    for claim in claims:
                        claim.done()
                    if recorder.is_complete:
                        return
        finally:
            await self._in_thread(recorder.close)

    async def _unfinished(self) -> set[RunId]:
        """Runs that go on, and runs that ended while nobody recorded."""
        while True:
            try:
                running = await self._store.read(_running)
                return running | await self._in_thread(partial(folders.incomplete, self._runs_dir))
            except StoreUnavailable as error:
                log.warning("metrics wait for the store: %s", error)
            await asyncio.sleep(self._retry_s)

    async def _in_thread(self, work: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._thread, work)


def _running(session: Session) -> set[RunId]:
    """A run that is queued is recorded once somebody drives it."""
    idle = [state for state in RunState if state.is_final or state is RunState.QUEUED]
    return {RunId(run) for run in session.exec(select(Run.id).where(col(Run.state).not_in(idle)))}
