"""Counting what a run uses, in the transaction that makes it true.

Invariants
- What is used is counted in the transaction that records what it was used for, and that one is committed
  once (`run_leases.fence`): a message that comes twice, or is answered again after a failover, counts once.
- What is counted stays when the run is deleted.
- Of recent use, half is forgotten in `HALF_LIFE_S`, whenever it is looked at.
"""

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

from sqlalchemy import update
from sqlalchemy.dialects import postgresql, sqlite
from sqlmodel import Session, SQLModel, col, select

from warren_gateway.store.tables import RecentUse, UsageRow

DAY_S = 86_400
HALF_LIFE_S = 86_400.0


@dataclass(slots=True)
class Used:
    training_gpu_s: float = 0.0
    sampling_gpu_s: float = 0.0
    n_tokens_trained: int = 0
    n_tokens_sampled: int = 0
    n_episodes: int = 0

    def __bool__(self) -> bool:
        return self != Used()

    @property
    def gpu_s(self) -> float:
        return self.training_gpu_s + self.sampling_gpu_s


def count(session: Session, *, run: str, owner: str, used: Used, now_s: float) -> None:
    """Add what a run of this owner has used."""
    if not used:
        return
    day = int(now_s // DAY_S)
    more = {name: getattr(UsageRow, name) + n for name, n in asdict(used).items() if n}
    row = (col(UsageRow.run_id) == run) & (col(UsageRow.day) == day)
    adding = update(UsageRow).where(row).values(**more)
    if not session.exec(adding).rowcount:
        _ensure(session, UsageRow(run_id=run, day=day, owner=owner))
        session.exec(adding)
    if used.gpu_s:
        _add_recent(session, owner, used.gpu_s, now_s)


def recent_use(session: Session, owners: Iterable[str], now_s: float) -> dict[str, float]:
    """GPU-seconds of each owner as they count now; of those who have used some."""
    query = select(RecentUse).where(col(RecentUse.owner).in_(list(owners)))
    return {row.owner: _decayed(row, now_s) for row in session.exec(query)}


def _add_recent(session: Session, owner: str, gpu_s: float, now_s: float) -> None:
    """Runs of one owner add one after the other: the row is locked."""
    row = session.get(RecentUse, owner, with_for_update=True)
    if row is None:
        _ensure(session, RecentUse(owner=owner, at_s=now_s))
        row = session.get_one(RecentUse, owner, with_for_update=True)
    row.gpu_s, row.at_s = _decayed(row, now_s) + gpu_s, max(now_s, row.at_s)


def _decayed(row: RecentUse, now_s: float) -> float:
    """A clock that was set back makes nothing grow."""
    return row.gpu_s * 0.5 ** (max(0.0, now_s - row.at_s) / HALF_LIFE_S)


def _ensure(session: Session, row: SQLModel) -> None:
    """Insert the row, unless somebody was a moment faster."""
    values: dict[str, Any] = row.model_dump()
    is_sqlite = session.get_bind().dialect.name == "sqlite"
    insert = sqlite.insert if is_sqlite else postgresql.insert
    session.exec(insert(type(row)).values(**values).on_conflict_do_nothing())
