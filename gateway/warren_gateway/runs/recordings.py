"""The recordings of runs: which may be replayed, how far they reach, what became of each episode."""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from sqlmodel import Session, col, select

from warren_gateway.coordinator.learning.advantages import OF_BATCH, advantages
from warren_gateway.coordinator.learning.credit import is_by_turn
from warren_gateway.position import Position
from warren_gateway.runs.newer_versions import readable_config
from warren_gateway.runs.owned import owned_run
from warren_gateway.runs.service import NoSuchRun
from warren_gateway.store.store import Store
from warren_gateway.store.tables import GroupRow, Run
from warren_schemas.config import TrainConfig
from warren_schemas.episode import EpisodeEnded
from warren_schemas.events import RunState
from warren_schemas.http import TrajectoryView
from warren_schemas.ids import RunId

LATELY_S = 7 * 24 * 3600.0
"""A run that ended earlier is not looked at again after a restart."""


@dataclass(frozen=True, slots=True)
class Fate:
    """What an episode was good for."""

    name: str
    """`trained`, `evaluated`, `stale`, `failed` or `abandoned`."""
    step: int | None
    """That trained on it, or after which it was evaluated."""
    advantage: float | None
    """Before the step's normalization; None where it carried no signal."""


Fates = dict[str, Fate]
"""By episode."""


def trajectory_view(position: Position, item: EpisodeEnded, fates: Fates) -> TrajectoryView:
    """What stands at this position of a recording, and what became of it."""
    fate = fates.get(item.envelope.episode or "")
    return TrajectoryView(
        offset=int(position),
        fate=fate.name if fate else None,
        step=fate.step if fate else None,
        advantage=fate.advantage if fate else None,
        trajectory=item,
    )


class Recordings:
    def __init__(self, store: Store) -> None:
        self._store = store

    async def end(self, owner: str, run: str) -> int:
        """How far the run's coordinator has read its stream: the first offset not yet consumed.

        Raises `NoSuchRun`, `StoreUnavailable`.
        """
        return await self._store.transact(lambda session: _end(session, owner, run))

    async def final_end(self, run: str) -> int | None:
        """The same of a run that has ended; None while it goes on."""
        return await self._store.transact(lambda session: _final_end(session, run))

    async def progress(self, run: str) -> tuple[int, bool]:
        """How far the run has read its stream, and whether it is over."""
        return await self._store.transact(lambda session: _progress(session, run))

    async def config(self, run: str) -> TrainConfig | None:
        """None where only a newer gateway can read it."""
        return await self._store.transact(
            lambda session: readable_config(session.get_one(Run, run)),
        )

    async def to_archive(self) -> list[RunId]:
        """Runs whose trajectories may lack in the archive: those that go on or ended lately."""
        return await self._store.transact(_to_archive)

    async def fates(self, run: str, items: Sequence[EpisodeEnded]) -> Fates:
        """What became of these episodes, as far as it is decided."""
        groups = {item.spec.group for item in items}
        return await self._store.transact(lambda session: _fates(session, run, groups))


def _end(session: Session, owner: str, run: str) -> int:
    row = owned_run(session, owner, run)
    if row is None:
        raise NoSuchRun(run)
    return row.stream_offset


def _final_end(session: Session, run: str) -> int | None:
    row = session.get_one(Run, run)
    return row.stream_offset if RunState(row.state).is_final else None


def _progress(session: Session, run: str) -> tuple[int, bool]:
    row = session.get_one(Run, run)
    return row.stream_offset, RunState(row.state).is_final


def _to_archive(session: Session) -> list[RunId]:
    since_s = time.time() - LATELY_S
    is_recent = col(Run.ended_s).is_(None) | (col(Run.ended_s) > since_s)
    configs = {row.id: readable_config(row) for row in session.exec(select(Run).where(is_recent))}
    return [RunId(run) for run, config in configs.items() if config and config.retention.archive]


def _config(row: Run) -> TrainConfig:
    return TrainConfig.model_validate(row.config)


def _fates(session: Session, run: str, groups: set[Any]) -> Fates:
    config = _config(session.get_one(Run, run))
    query = select(GroupRow).where(col(GroupRow.run_id) == run, col(GroupRow.id).in_(groups))
    fates: Fates = {}
    for row in session.exec(query):
        fates |= _of_group(row, config)
    return fates


def _of_group(row: GroupRow, config: TrainConfig) -> Fates:
    outcomes = row.outcomes or []
    rewarded = [member for member, outcome in enumerate(outcomes) if "reward" in outcome]
    rewards_G = np.array([outcomes[member]["reward"] for member in rewarded], np.float64)
    kind = config.algorithm.advantage
    is_by_group = kind not in OF_BATCH and not is_by_turn(config.algorithm)
    # What compares with a whole batch, or by turn, can't be told from one group's rewards.
    advantages_G = advantages([rewards_G], kind)[0] if is_by_group else None
    by_member: dict[int, float] = {}
    if advantages_G is not None:
        by_member = dict(zip(rewarded, map(float, advantages_G), strict=True))
    return {
        f"{row.id}.{member}": Fate(
            outcome["fate"],
            outcome.get("step"),
            by_member.get(member) if outcome["fate"] == "trained" else None,
        )
        for member, outcome in enumerate(outcomes)
    }
