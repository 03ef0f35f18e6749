"""Usage as users see it: their own; admins that of all."""

from collections.abc import Sequence
from datetime import UTC, datetime
from functools import partial
from typing import Any, cast

from sqlalchemy import literal, union_all
from sqlalchemy import select as select_rows
from sqlmodel import Session, col, func, select

from warren_gateway.access.caller import Caller
from warren_gateway.access.problems import NotPermitted
from warren_gateway.store.store import Store
from warren_gateway.store.tables import Run, SamplingUse, UsageRow
from warren_gateway.usage.counting import DAY_S
from warren_gateway.usage.sampled import count_uncounted
from warren_gateway.usage.stored_bytes import stored_by_run
from warren_schemas.ids import RunId
from warren_schemas.users.usage import UsageBy, UsageView

MOST_LISTED = 1000

_ALL = union_all(
    select_rows(
        col(UsageRow.run_id), col(UsageRow.owner), col(UsageRow.day), col(UsageRow.training_gpu_s),
        col(UsageRow.sampling_gpu_s), col(UsageRow.n_tokens_trained), col(UsageRow.n_tokens_sampled),
        col(UsageRow.n_episodes),
    ),
    select_rows(
        col(SamplingUse.run_id), col(SamplingUse.owner), col(SamplingUse.day), literal(0.0),
        col(SamplingUse.gpu_s), literal(0), col(SamplingUse.n_tokens_sampled), literal(0),
    ),
).subquery().c  # fmt: skip
"""What runs have used, and what was sampled for Tinker's clients: of an empty run where that was a base model."""
_SUMS = tuple(
    func.sum(_ALL[name])
    for name in (
        "training_gpu_s", "sampling_gpu_s", "n_tokens_trained", "n_tokens_sampled", "n_episodes",
    )
)  # fmt: skip


class UsageReports:
    def __init__(self, store: Store) -> None:
        self._store = store

    async def listed(
        self, caller: Caller, *, by: UsageBy, user: str | None, since_s: float
    ) -> tuple[UsageView, ...]:
        """From the day of `since_s` on. Raises `NotPermitted`, `StoreUnavailable`."""
        if user not in (None, caller.user) and not caller.is_admin:
            raise NotPermitted("Only an admin sees the usage of others")
        whose = user or (None if caller.is_admin else caller.user)
        list_them = {"run": _by_run, "user": _by_user, "day": _by_day}[by]
        await self._store.transact(count_uncounted)
        return await self._store.read(partial(list_them, whose, int(since_s // DAY_S)))


def _by_run(owner: str | None, since_day: int, session: Session) -> tuple[UsageView, ...]:
    """Who samples from another owner's run has used it; its name, and what it stores, are its owner's."""
    rows = _sums(session, owner, since_day, _ALL.run_id.desc(), _ALL.owner)
    stored = stored_by_run(session, owner)
    known = select(Run.id, Run.owner, Run.name).where(col(Run.id).in_([run for run, *_ in rows]))
    names = {(run, of): name for run, of, name in session.exec(known)}
    return tuple(
        _view(
            sums,
            run=RunId(run) if run else None,
            user=user,
            name=names.get((run, user)),
            stored=stored.get(run, 0) if (run, user) in names else 0,
        )
        for run, user, *sums in rows
    )


def _by_user(owner: str | None, since_day: int, session: Session) -> tuple[UsageView, ...]:
    rows = _sums(session, owner, since_day, _ALL.owner.asc())
    stored = _stored_by_user(session, owner)
    return tuple(_view(sums, user=user, stored=stored.get(user, 0)) for user, *sums in rows)


def _by_day(owner: str | None, since_day: int, session: Session) -> tuple[UsageView, ...]:
    rows = _sums(session, owner, since_day, _ALL.day.desc())
    return tuple(_view(sums, user=owner, day=_date(day)) for day, *sums in rows)


def _sums(
    session: Session, owner: str | None, since_day: int, order: Any, *keys: Any
) -> list[tuple[Any, ...]]:
    """For each value of the keys, the first of which orders the rows: these, then `_SUMS`."""
    query: Any = cast("Any", select)(order.element, *keys, *_SUMS)
    query = query.where(_ALL.day >= since_day)
    if owner is not None:
        query = query.where(_ALL.owner == owner)
    query = query.group_by(order.element, *keys).order_by(order).limit(MOST_LISTED)
    return cast("list[tuple[Any, ...]]", cast("Any", session).exec(query).all())


def _stored_by_user(session: Session, owner: str | None) -> dict[str, int]:
    stored = stored_by_run(session, owner)
    owners = dict(session.exec(select(Run.id, Run.owner).where(col(Run.id).in_(stored))).all())
    found = dict[str, int]()
    for run, n_bytes in stored.items():
        found[owners[run]] = found.get(owners[run], 0) + n_bytes
    return found


def _view(
    sums: Sequence[Any],
    *,
    run: RunId | None = None,
    user: str | None = None,
    name: str | None = None,
    day: str | None = None,
    stored: int | None = None,
) -> UsageView:
    training_s, sampling_s, n_trained, n_sampled, n_episodes = sums
    return UsageView(
        user=user,
        run=run,
        name=name,
        day=day,
        training_gpu_s=training_s,
        sampling_gpu_s=sampling_s,
        n_tokens_trained=int(n_trained),
        n_tokens_sampled=int(n_sampled),
        n_episodes=int(n_episodes),
        stored_bytes=stored,
    )


def _date(day: int) -> str:
    return datetime.fromtimestamp(day * DAY_S, UTC).date().isoformat()
