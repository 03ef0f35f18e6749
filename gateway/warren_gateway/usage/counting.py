"""Counting what a run or a session uses, in the transaction that makes it true.

Invariants
- What is used is counted in the transaction that records what it was used for, and that one is committed
  once (`run_leases.fence`): a message that comes twice, or is answered again after a failover, counts once.
- What a sample took is recorded with its one outcome, and counted in the transaction that takes the record away.
- What is counted stays when the run is deleted.
- Of recent use, half is forgotten in `HALF_LIFE_S`, whenever it is looked at.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any

from sqlalchemy import bindparam, update
from sqlalchemy import select as select_rows
from sqlalchemy.dialects import postgresql, sqlite
from sqlmodel import Session, SQLModel, col, select

from warren_gateway.store.statements import table
from warren_gateway.store.tables import Model, RecentUse, SamplingUse, UsageRow

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


@dataclass(frozen=True, slots=True)
class SampleUse:
    """What one sample took: all the sequences that were asked for with one prompt."""

    model: str
    """Whose weights; of no run where that is a base model."""
    base_model: str
    n_tokens_prompt: int
    """Once, however many sequences follow on it."""
    n_tokens_sampled: int
    gpu_s: float


_USED = table(UsageRow)
_ADD = (
    update(_USED)
    .where(_USED.c.run_id == bindparam("its_run"), _USED.c.day == bindparam("its_day"))
    .values({f.name: _USED.c[f.name] + bindparam(f"more_{f.name}") for f in fields(Used)})
)
_SAMPLED = table(SamplingUse)
_KEYS = ("session_id", "run_id", "base_model", "day")
_ADD_SAMPLED = (
    update(_SAMPLED)
    .where(*(_SAMPLED.c[key] == bindparam(f"its_{key}") for key in _KEYS))
    .values(
        {
            key: _SAMPLED.c[key] + bindparam(f"more_{key}")
            for key in ("n_tokens_prompt", "n_tokens_sampled", "gpu_s")
        }
    )
)
_RUN_OF = select_rows(table(Model).c.run_id).where(table(Model).c.id == bindparam("its_model"))
_LATELY = table(RecentUse)
_IS_OWNERS = _LATELY.c.owner == bindparam("its_owner")
_RECENT = select_rows(_LATELY.c.gpu_s, _LATELY.c.at_s).where(_IS_OWNERS).with_for_update()
_CHANGE_RECENT = update(_LATELY).where(_IS_OWNERS)


def count(session: Session, *, run: str, owner: str, used: Used, now_s: float) -> None:
    """Add what a run of this owner has used."""
    if not used:
        return
    day = int(now_s // DAY_S)
    more = {f"more_{name}": n for name, n in asdict(used).items()}
    ours = {"its_run": run, "its_day": day, **more}
    if not session.connection().execute(_ADD, ours).rowcount:
        _ensure(session, UsageRow(run_id=run, day=day, owner=owner))
        session.connection().execute(_ADD, ours)
    if used.gpu_s:
        _add_recent(session, owner, used.gpu_s, now_s)


def count_samples(
    session: Session, *, session_id: str, owner: str, uses: Sequence[SampleUse], now_s: float
) -> None:
    """Add what samples of one model took that a client of Tinker's protocol has asked for; they are of the same day."""
    one = uses[0]
    run = session.connection().execute(_RUN_OF, {"its_model": one.model}).scalar_one_or_none()
    row = SamplingUse(
        session_id=session_id,
        run_id=run or "",
        base_model=one.base_model,
        day=int(now_s // DAY_S),
        owner=owner,
    )
    ours = {
        **{f"its_{key}": getattr(row, key) for key in _KEYS},
        "more_n_tokens_prompt": sum(used.n_tokens_prompt for used in uses),
        "more_n_tokens_sampled": sum(used.n_tokens_sampled for used in uses),
        "more_gpu_s": (gpu_s := math.fsum(used.gpu_s for used in uses)),
    }
    if not session.connection().execute(_ADD_SAMPLED, ours).rowcount:
        _ensure(session, row)
        session.connection().execute(_ADD_SAMPLED, ours)
    if gpu_s:
        _add_recent(session, owner, gpu_s, now_s)


def recent_use(session: Session, owners: Iterable[str], now_s: float) -> dict[str, float]:
    """GPU-seconds of each owner as they count now; of those who have used some."""
    query = select(RecentUse).where(col(RecentUse.owner).in_(list(owners)))
    return {row.owner: _decayed(row.gpu_s, row.at_s, now_s) for row in session.exec(query)}


def _add_recent(session: Session, owner: str, gpu_s: float, now_s: float) -> None:
    """Runs of one owner add one after the other: the row is locked."""
    ours = {"its_owner": owner}
    row = session.connection().execute(_RECENT, ours).first()
    if row is None:
        _ensure(session, RecentUse(owner=owner, at_s=now_s))
        row = session.connection().execute(_RECENT, ours).one()
    used_s, at_s = row
    now = {"gpu_s": _decayed(used_s, at_s, now_s) + gpu_s, "at_s": max(now_s, at_s)}
    session.connection().execute(_CHANGE_RECENT, ours | now)


def _decayed(used_s: float, at_s: float, now_s: float) -> float:
    """A clock that was set back makes nothing grow."""
    return used_s * 0.5 ** (max(0.0, now_s - at_s) / HALF_LIFE_S)


def _ensure(session: Session, row: SQLModel) -> None:
    """Insert the row, unless somebody was a moment faster."""
    values: dict[str, Any] = row.model_dump()
    is_sqlite = session.get_bind().dialect.name == "sqlite"
    insert = sqlite.insert if is_sqlite else postgresql.insert
    session.exec(insert(type(row)).values(**values).on_conflict_do_nothing())
