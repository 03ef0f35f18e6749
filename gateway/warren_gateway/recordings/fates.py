"""What became of each recorded episode, and which of its endings that is said of.

A run's stream may hold several endings of one episode: of attempts that were given up, of two workers that
both ended the same attempt, and the very same message stored twice. The run counted at most one, and keeps
its position in the stream with the outcome.

Invariants
- The ending at that position has the episode's fate; every other one is `superseded`, whatever it says.
- So what counts is a function of the store: the same at every gateway, and wherever reading begins.
- An ending that lies before the place up to which the run has read its stream is decided.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from sqlmodel import Session, col, select

from warren_gateway.coordinator.learning.advantages import OF_BATCH, advantages
from warren_gateway.coordinator.learning.credit import is_by_turn
from warren_gateway.position import Position
from warren_gateway.store.tables import GroupRow, Run
from warren_schemas.config import TrainConfig
from warren_schemas.episode import EpisodeEnded
from warren_schemas.http import TrajectoryView

SUPERSEDED = "superseded"


@dataclass(frozen=True, slots=True)
class Fate:
    """What an episode was good for."""

    name: str
    """`trained`, `evaluated`, `stale`, `failed` or `abandoned`."""
    step: int | None
    """That trained on it, or after which it was evaluated."""
    advantage: float | None
    """Before the step's normalization; None where it carried no signal."""


_SUPERSEDED = Fate(SUPERSEDED, None, None)


@dataclass(frozen=True, slots=True)
class _Member:
    attempt: int
    """The newest one."""
    position: int | None
    """Of the ending that counted."""
    fate: Fate | None
    """None while it is not decided."""
    group_size: int

    def fate_of(self, item: EpisodeEnded, position: Position) -> Fate | None:
        if self.fate is not None:
            return self.fate if int(position) == self.position else _SUPERSEDED
        return _SUPERSEDED if item.envelope.attempt < self.attempt else None


class Fates:
    """Of the episodes of some groups of a run."""

    def __init__(self, members: dict[tuple[str, int], _Member]) -> None:
        self._members = members

    def view(self, item: EpisodeEnded, position: Position) -> TrajectoryView:
        """What stands at this position of the recording, and what became of it."""
        member = self._members.get((item.spec.group, item.spec.member))
        fate = member.fate_of(item, position) if member else None
        return TrajectoryView(
            offset=int(position),
            fate=fate.name if fate else None,
            step=fate.step if fate else None,
            advantage=fate.advantage if fate else None,
            group_size=member.group_size if member else None,
            trajectory=item,
        )


def counts(view: TrajectoryView) -> bool:
    """Whether this is the one ending of its episode that the run counted."""
    return view.fate not in (None, SUPERSEDED)


def fates_of(session: Session, run: str, items: Sequence[EpisodeEnded]) -> Fates:
    """What became of these episodes, as far as it is decided."""
    groups = {item.spec.group for item in items}
    config = TrainConfig.model_validate(session.get_one(Run, run).config)
    return Fates(
        {
            (row.id, number): member
            for row in _rows(session, run, groups)
            for number, member in enumerate(_members(row, config))
        }
    )


def _rows(session: Session, run: str, groups: Collection[str]) -> Sequence[GroupRow]:
    query = select(GroupRow).where(col(GroupRow.run_id) == run, col(GroupRow.id).in_(groups))
    return session.exec(query).all()


def _members(row: GroupRow, config: TrainConfig) -> list[_Member]:
    if row.outcomes is None:
        return [_Member(attempt, None, None, row.n_members) for attempt in row.attempts]
    advantages_by_member = _advantages(row.outcomes, config)
    return [
        _Member(
            attempt,
            outcome.get("position"),
            _fate(outcome, advantages_by_member.get(number)),
            row.n_members,
        )
        for number, (attempt, outcome) in enumerate(zip(row.attempts, row.outcomes, strict=True))
    ]


def _fate(outcome: dict[str, Any], advantage: float | None) -> Fate:
    name = outcome["fate"]
    return Fate(name, outcome.get("step"), advantage if name == "trained" else None)


def _advantages(outcomes: Sequence[dict[str, Any]], config: TrainConfig) -> dict[int, float]:
    """By member. What compares with a whole batch, or by turn, can't be told from one group's rewards."""
    kind = config.algorithm.advantage
    if kind in OF_BATCH or is_by_turn(config.algorithm):
        return {}
    rewarded = [member for member, outcome in enumerate(outcomes) if "reward" in outcome]
    rewards_G = np.array([outcomes[member]["reward"] for member in rewarded], np.float64)
    [advantages_G] = advantages([rewards_G], kind)
    if advantages_G is None:
        return {}
    return dict(zip(rewarded, map(float, advantages_G), strict=True))
