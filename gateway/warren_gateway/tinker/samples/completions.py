"""Which samples of a sampler are done, in the store: a client of many hears of all of them with one question.

Invariants
- Completions of a sampler are numbered in the order of their commits: the sampler's row is locked from the number on
  until the commit. So whoever has heard of one has heard of all before it.
- A completion of which its client has not heard is told for `UNHEARD_S`, also where its outcome is no longer kept:
  the client asks for that, and is told that it is gone.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import partial

from sqlalchemy import ColumnElement, bindparam, exists, true
from sqlmodel import Session, col, delete, func, select, update

from warren_gateway.store.clock import store_time_s
from warren_gateway.store.statements import table
from warren_gateway.store.store import Store
from warren_gateway.store.tables import TinkerSample, TinkerSampler

KEPT_S = 900.0
"""How long an outcome is kept."""
UNHEARD_S = 86_400.0
MOST_TOLD = 1000
"""Completions of an answer; the rest comes with the next one."""
CLONE = 1_000_000_000
"""The clients give each clone of a sampler as many numbers for its samples."""

Clone = tuple[str, int]
"""A sampler's id, and which of its clones."""

_SAMPLERS = table(TinkerSampler)
_COUNT = (
    update(_SAMPLERS)
    .where(_SAMPLERS.c.id == bindparam("its_id"))
    .values(n_completed=_SAMPLERS.c.n_completed + 1, used_s=bindparam("now_s"))
    .returning(_SAMPLERS.c.n_completed)
)


@dataclass(frozen=True, slots=True)
class Completion:
    name: str
    n_bytes: int | None
    """Of its outcome; None where there is none: it failed, or is gone."""


@dataclass(frozen=True, slots=True)
class Completed:
    completions: tuple[Completion, ...]
    newest: int
    """Number of the last one, or of the one that was asked after."""


def clone_of(name: str) -> Clone:
    """Whose sample is called so."""
    sampler, _, number = name.rpartition(":")
    return sampler, int(number) // CLONE


def next_completion(session: Session, sampler: str, now_s: float) -> int | None:
    """Its number. None where the sampler is gone, so that nobody asks."""
    counted = session.connection().execute(_COUNT, {"its_id": sampler, "now_s": now_s})
    return counted.scalar_one_or_none()


class CompletionRows:
    """All methods raise `StoreUnavailable`."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def completed(self, clone: Clone, after: int) -> Completed:
        """Those with a higher number than `after`, in their order."""
        return await self._store.read(partial(_completed, clone, after))

    async def heard(self, newest: Mapping[Clone, int]) -> None:
        """By clone, the number of the newest completion that its client has heard of."""
        await self._store.transact(partial(_heard, newest))

    async def unheld(self, samplers: Collection[str]) -> list[tuple[str, str]]:
        """Owners and names of these samplers' open samples that no other gateway has."""
        if not samplers:
            return []
        who = (self._store.gateway, self._store.is_private)
        return await self._store.read(partial(_unheld, list(samplers), *who))


def _completed(clone: Clone, after: int, session: Session) -> Completed:
    n_bytes = func.length(col(TinkerSample.outcome))
    query = (
        select(TinkerSample.id, TinkerSample.completion, n_bytes)
        .where(*_of(clone), col(TinkerSample.completion) > after)
        .order_by(col(TinkerSample.completion))
        .limit(MOST_TOLD)
    )
    rows = session.exec(query).all()
    found = tuple(Completion(name, n_bytes) for name, _, n_bytes in rows)
    return Completed(found, rows[-1][1] or after if rows else after)


def _of(clone: Clone) -> tuple[ColumnElement[bool], ...]:
    sampler, number = clone
    return col(TinkerSample.sampler) == sampler, col(TinkerSample.clone) == number


def _heard(newest: Mapping[Clone, int], session: Session) -> None:
    samplers = {sampler for sampler, _ in newest}
    polled = update(TinkerSampler).where(
        col(TinkerSampler.id).in_(samplers), col(TinkerSampler.is_polled).is_(False)
    )
    session.exec(polled.values(is_polled=True))
    for clone, number in newest.items():
        is_heard = (*_of(clone), col(TinkerSample.completion) <= number)
        session.exec(update(TinkerSample).where(*is_heard).values(completion=None))


def _unheld(
    samplers: Collection[str], gateway: str, is_private: bool, session: Session
) -> list[tuple[str, str]]:
    is_free = col(TinkerSample.held_until_s) <= store_time_s(session)
    if is_private:
        is_free = true()
    query = select(TinkerSample.owner, TinkerSample.id).where(
        col(TinkerSample.sampler).in_(samplers),
        col(TinkerSample.done_s).is_(None),
        is_free | (col(TinkerSample.holder) == gateway),
    )
    return list(session.exec(query).all())


def sweep(session: Session, now_s: float) -> None:
    """What was kept for long enough goes, but for what a client that polls has yet to hear of."""
    is_polled = exists().where(
        col(TinkerSampler.id) == col(TinkerSample.sampler), col(TinkerSampler.is_polled)
    )
    done_s, held_until_s = col(TinkerSample.done_s), col(TinkerSample.held_until_s)
    old_s, oldest_s = now_s - KEPT_S, now_s - UNHEARD_S
    is_heard = col(TinkerSample.completion).is_(None) | ~is_polled
    is_counted = col(TinkerSample.used).is_(None)
    done = (done_s < old_s) & is_counted & (is_heard | (done_s < oldest_s))
    open_ = done_s.is_(None) & (held_until_s < old_s) & (~is_polled | (held_until_s < oldest_s))
    for gone in (done, open_):
        session.exec(delete(TinkerSample).where(gone))
    has_outcome = col(TinkerSample.outcome).is_not(None) | col(TinkerSample.failure).is_not(None)
    stale = update(TinkerSample).where(done_s < old_s, has_outcome)
    session.exec(stale.values(outcome=None, failure=None))
