"""Samples that were asked for, in the store: what outlives the gateway that has asked the samplers.

Invariants
- A row is written before its question is asked, so that a sample that was accepted is never unknown.
- A sample without an outcome is held by one gateway at a time. Who holds it says so every few seconds; where it no
  longer does, whichever gateway is asked for the sample takes it over.
- An outcome stays for `KEPT_S`, and what is left then is told as what was lost: its client may ask once more.
- What a sample took is written with its outcome, and so once, whoever has asked for it again meanwhile; it is counted
  with what others took (`usage.sampled`), and before its row goes.
- A sample that is cancelled has no row any more; whoever holds it sees so when it says next that it does.
- All times are of the store's clock: those of two gateways may differ by more than `HELD_S`.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import orjson
from sqlalchemy import Executable, bindparam, update
from sqlalchemy import select as select_rows
from sqlalchemy.dialects import postgresql, sqlite
from sqlmodel import Session, col

from warren_broker.topology import MODEL_ANSWERS
from warren_gateway.store.clock import store_time_s
from warren_gateway.store.outbox import post
from warren_gateway.store.statements import table
from warren_gateway.store.store import Store
from warren_gateway.store.tables import TinkerSample
from warren_gateway.tinker.samples.completions import clone_of, next_completion, sweep
from warren_gateway.usage.counting import SampleUse
from warren_gateway.usage.sampled import count_uncounted
from warren_schemas.control import RequestsAnswered
from warren_schemas.envelope import Envelope
from warren_schemas.ids import ModelId

HELD_S = 15.0
"""So long after its holder's last word is a sample left to it."""

_SAMPLES = table(TinkerSample)
_IS_IT = _SAMPLES.c.id == bindparam("its_id")
_IS_LOST = (
    _SAMPLES.c.done_s.is_not(None) & _SAMPLES.c.outcome.is_(None) & _SAMPLES.c.failure.is_(None)
)
_CHANGE = update(_SAMPLES).where(_IS_IT)
_LOCK_OPEN = (
    select_rows(_SAMPLES.c.sampler).where(_IS_IT, _SAMPLES.c.done_s.is_(None)).with_for_update()
)


def _adding(insert: sqlite.Insert | postgresql.Insert) -> Executable:
    """Where there is one that was lost it takes its place."""
    adding = insert.on_conflict_do_update(
        index_elements=[_SAMPLES.c.id], set_=dict(insert.excluded), where=_IS_LOST
    )
    return adding.returning(_SAMPLES.c.id)


_ADD = {
    "sqlite": _adding(sqlite.insert(_SAMPLES)),
    "postgresql": _adding(postgresql.insert(_SAMPLES)),
}


@dataclass(frozen=True, slots=True)
class FailedSample:
    """Why there is no answer, and whether the same question would fail again."""

    reason: str
    is_users: bool


Sampled = bytes | FailedSample


@dataclass(frozen=True, slots=True)
class Taken:
    """It is this gateway's now; what was asked."""

    asked: bytes


@dataclass(frozen=True, slots=True)
class Elsewhere:
    """Another gateway has it."""

    for_s: float
    """So long, unless it says more."""


class SampleRows:
    """`posted` is told of each message in the outbox."""

    def __init__(self, store: Store, posted: Callable[[], None]) -> None:
        self._store = store
        self._posted = posted

    async def add(
        self, owner: str, name: str, asked: bytes, failed: FailedSample | None = None
    ) -> bool:
        """Whether it is new; `failed` where it can't be asked at all. Raises `StoreUnavailable`, as all do."""
        sampler, clone = clone_of(name)
        row = TinkerSample(
            id=name,
            sampler=sampler,
            clone=clone,
            owner=owner,
            asked=asked,
            holder=self._store.gateway,
            held_until_s=0.0,
        )
        is_shared = not self._store.is_private
        is_new = await self._store.transact(partial(_add, row, failed, is_shared))
        if is_shared and failed is not None:
            self._posted()
        return is_new

    async def finish(self, name: str, outcome: Sampled, used: SampleUse | None = None) -> bool:
        """The first outcome stays, and what that one took: whether this is it. Gateways where a client waits for it are
        told."""
        return await self._end(name, outcome, used)

    async def _end(self, name: str, outcome: Sampled | None, used: SampleUse | None = None) -> bool:
        is_shared = not self._store.is_private
        is_first = await self._store.transact(partial(_end, name, outcome, is_shared, used=used))
        if is_shared:
            self._posted()
        return is_first

    async def find(self, owner: str, name: str) -> Sampled | Taken | Elsewhere | None:
        """The outcome, or who has it: this gateway takes what nobody holds. None: there is none of this owner's, or it
        was lost."""
        finding = partial(_find, owner, name, self._store.gateway, self._store.is_private)
        return await self._store.transact(finding)

    async def lose(self, name: str) -> None:
        """There will be no outcome, and whoever wants one asks again. Gateways where a client waits for it are told."""
        await self._end(name, None)

    async def cancel(self, owner: str, name: str) -> None:
        """Nobody wants it, wherever it is; one that is done stays."""
        is_shared = not self._store.is_private
        await self._store.transact(partial(_cancel, owner, name, is_shared))
        if is_shared:
            self._posted()

    async def hold(self) -> set[str]:
        """All that is this gateway's, for `HELD_S` more: what is left of it.

        What all took is counted first, in a transaction of its own, for which no open sample waits. What was kept for long
        enough is deleted.
        """
        await self._store.transact(count_uncounted)
        return await self._store.transact(partial(_hold, self._store.gateway))

    async def release(self, name: str | None = None) -> None:
        """This one, or all that is this gateway's: any gateway may take them at once."""
        await self._store.transact(partial(_release, self._store.gateway, name))


def _add(row: TinkerSample, failed: FailedSample | None, is_shared: bool, session: Session) -> bool:
    """The insert waits for another gateway's of the same name; one that was lost is asked anew."""
    row.held_until_s = store_time_s(session) + HELD_S
    adding = _ADD[session.get_bind().dialect.name]
    is_new = session.connection().execute(adding, row.model_dump()).first() is not None
    if is_new and failed is not None:
        _end(row.id, failed, is_shared, session)
    return is_new


def _end(
    name: str,
    outcome: Sampled | None,
    is_shared: bool,
    session: Session,
    used: SampleUse | None = None,
) -> bool:
    """Whether it was open."""
    row = session.connection().execute(_LOCK_OPEN, {"its_id": name}).one_or_none()
    if row is None:
        return False
    (sampler,), now_s = row, store_time_s(session)
    end: dict[str, object] = {"asked": None, "done_s": now_s}
    end["completion"] = next_completion(session, sampler, now_s)
    if isinstance(outcome, FailedSample):
        end |= {"failure": outcome.reason, "is_users": outcome.is_users}
    else:
        end["outcome"] = outcome
    if used is not None:
        end["used"] = orjson.dumps(used)
    session.connection().execute(_CHANGE, {"its_id": name, **end})
    if is_shared:
        _tell(session, name, sampler)
    return True


def _tell(session: Session, name: str, sampler: str) -> None:
    """Gateways where a client waits for it, or for any of its sampler."""
    requests = (name, sampler)
    told = RequestsAnswered(envelope=Envelope(), answered_model=ModelId(sampler), requests=requests)
    post(session, MODEL_ANSWERS, told)


def _find(
    owner: str, name: str, gateway: str, is_private: bool, session: Session
) -> Sampled | Taken | Elsewhere | None:
    row = session.get(TinkerSample, name, with_for_update=True)
    if row is None or row.owner != owner:
        return None
    if row.failure is not None:
        return FailedSample(row.failure, row.is_users)
    if row.outcome is not None or row.done_s is not None:
        return row.outcome
    now_s = store_time_s(session)
    left_s = row.held_until_s - now_s
    if left_s > 0 and not is_private and row.holder != gateway:
        return Elsewhere(left_s)
    row.holder, row.held_until_s = gateway, now_s + HELD_S
    return Taken(row.asked or b"")


def _cancel(owner: str, name: str, is_shared: bool, session: Session) -> None:
    row = session.get(TinkerSample, name, with_for_update=True)
    if row is None or row.owner != owner or row.done_s is not None:
        return
    session.delete(row)
    if is_shared:
        _tell(session, row.id, row.sampler)


def _hold(gateway: str, session: Session) -> set[str]:
    now_s = store_time_s(session)
    is_ours = (col(TinkerSample.holder) == gateway) & col(TinkerSample.done_s).is_(None)
    holding = update(TinkerSample).where(is_ours).values(held_until_s=now_s + HELD_S)
    held = set(session.exec(holding.returning(col(TinkerSample.id))).scalars())
    sweep(session, now_s)
    return held


def _release(gateway: str, name: str | None, session: Session) -> None:
    is_it = col(TinkerSample.holder) == gateway
    if name is not None:
        is_it &= col(TinkerSample.id) == name
    session.exec(update(TinkerSample).where(is_it).values(held_until_s=store_time_s(session)))
