"""The recordings of runs: which may be replayed, how far they reach, what became of each episode."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from sqlmodel import Session, col, select

from warren_gateway.coordinator.advantages import advantages
from warren_gateway.runs import NoSuchRun
from warren_gateway.store.store import Store
from warren_gateway.store.tables import GroupRow, Run
from warren_schemas.config import TrainConfig
from warren_schemas.episode import EpisodeEnded
from warren_schemas.events import RunState


@dataclass(frozen=True, slots=True)
class Fate:
    """What an episode was good for."""

    name: str
    """`trained`, `evaluated`, `stale`, `failed` or `abandoned`."""
    advantage: float | None
    """Before the step's normalization; None where it carried no signal."""


Fates = dict[str, Fate]
"""By episode."""


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

    async def fates(self, run: str, items: Sequence[EpisodeEnded]) -> Fates:
        """What became of these episodes, as far as it is decided."""
        groups = {item.spec.group for item in items}
        return await self._store.transact(lambda session: _fates(session, run, groups))


def _end(session: Session, owner: str, run: str) -> int:
    row = session.get(Run, run)
    if row is None or row.owner != owner:
        raise NoSuchRun(run)
    return row.stream_offset


def _final_end(session: Session, run: str) -> int | None:
    row = session.get_one(Run, run)
    return row.stream_offset if RunState(row.state).is_final else None


def _fates(session: Session, run: str, groups: set[Any]) -> Fates:
    config = TrainConfig.model_validate(session.get_one(Run, run).config)
    query = select(GroupRow).where(col(GroupRow.run_id) == run, col(GroupRow.id).in_(groups))
    fates: Fates = {}
    for row in session.exec(query):
        fates |= _of_group(row, config)
    return fates


def _of_group(row: GroupRow, config: TrainConfig) -> Fates:
    outcomes = row.outcomes or []
    rewarded = [member for member, outcome in enumerate(outcomes) if "reward" in outcome]
    rewards_G = np.array([outcomes[member]["reward"] for member in rewarded], np.float64)
    advantages_G = advantages(rewards_G, config.algorithm.advantage)
    by_member: dict[int, float] = {}
    if advantages_G is not None:
        by_member = dict(zip(rewarded, map(float, advantages_G), strict=True))
    return {
        f"{row.id}.{member}": Fate(
            outcome["fate"], by_member.get(member) if outcome["fate"] == "trained" else None
        )
        for member, outcome in enumerate(outcomes)
    }
