"""The recordings of runs: which may be replayed, how far they reach, what became of each episode."""

import time
from collections.abc import Sequence

from sqlmodel import Session, col, select

from warren_gateway.access.caller import Viewer
from warren_gateway.recordings.fates import Fates, fates_of
from warren_gateway.runs.newer_versions import readable_config
from warren_gateway.runs.owned import NoSuchRun, readable_run
from warren_gateway.store.store import Store
from warren_gateway.store.tables import Run
from warren_schemas.config import TrainConfig
from warren_schemas.episode import EpisodeEnded
from warren_schemas.events import RunState
from warren_schemas.ids import RunId

LATELY_S = 7 * 24 * 3600.0
"""A run that ended earlier is not looked at again after a restart."""


class Recordings:
    def __init__(self, store: Store) -> None:
        self._store = store

    async def end(self, viewer: Viewer, run: str) -> int:
        """How far the run's coordinator has read its stream: the first offset not yet consumed.

        Raises `NoSuchRun`, `StoreUnavailable`.
        """
        return await self._store.read(lambda session: _end(session, viewer, run))

    async def progress(self, run: str) -> tuple[int, bool]:
        """How far the run has read its stream, and whether it is over."""
        return await self._store.read(lambda session: _progress(session, run))

    async def config(self, run: str) -> TrainConfig | None:
        """None where only a newer gateway can read it."""
        return await self._store.read(
            lambda session: readable_config(session.get_one(Run, run)),
        )

    async def to_archive(self) -> list[RunId]:
        """Runs whose trajectories may lack in the archive: those that go on or ended lately."""
        return await self._store.read(_to_archive)

    async def fates(self, run: str, items: Sequence[EpisodeEnded]) -> Fates:
        """What became of these episodes, as far as it is decided."""
        return await self._store.read(lambda session: fates_of(session, run, items))


def _end(session: Session, viewer: Viewer, run: str) -> int:
    row = readable_run(session, viewer, run)
    if row is None:
        raise NoSuchRun(run)
    return row.stream_offset


def _progress(session: Session, run: str) -> tuple[int, bool]:
    row = session.get_one(Run, run)
    return row.stream_offset, RunState(row.state).is_final


def _to_archive(session: Session) -> list[RunId]:
    since_s = time.time() - LATELY_S
    is_recent = col(Run.ended_s).is_(None) | (col(Run.ended_s) > since_s)
    is_begun = col(Run.state) != RunState.QUEUED
    query = select(Run).where(is_recent, is_begun)
    configs = {row.id: readable_config(row) for row in session.exec(query)}
    return [RunId(run) for run, config in configs.items() if config and config.retention.archive]
