"""Which clients of samples are there: nobody waits for the samples of one of which nothing was heard for `IDLE_S`.

Invariants
- A sample that is asked for or polled for tells that a client is there, as a heartbeat of its session does: processes that did not open a sampler may use
  it, also after its session was finished.
- A gateway that has just started, stood still or could not reach the store has heard nobody: it gives all clients their
  time once more. It measures that by the clock that says how long they were silent, for others stand still while a
  machine sleeps, and do not jump where that one is set.
"""

import time
from collections.abc import Callable, Collection
from functools import partial

from sqlmodel import Session, col, select, update

from warren_gateway.store.store import Store, StoreUnavailable
from warren_gateway.store.tables import TinkerSample, TinkerSampler, TinkerSession
from warren_gateway.tinker.creating import IDLE_S
from warren_gateway.tinker.samples.rows import HELD_S

MOST_GONE = 500
"""Samples that end at a time; those of others must be held meanwhile."""
_NOTED_S = 20.0
"""How exact it is known when a client was last heard of."""


class SampleClients:
    """`now_s` is the clock of all gateways. All methods raise `StoreUnavailable`."""

    def __init__(self, store: Store, now_s: Callable[[], float] = time.time) -> None:
        self._store = store
        self._now_s = now_s
        self._listens_since_s = self._looked_s = now_s()
        self._heard = set[str]()

    def heard(self, sampler: str) -> None:
        """A client of this one is there. It is written down later."""
        self._heard.add(sampler)

    async def note(self) -> None:
        """Write down who was heard; where that fails, the next time."""
        heard, self._heard = self._heard, set[str]()
        if not heard:
            return
        try:
            await self._store.transact(partial(_note, heard, self._now_s()))
        except StoreUnavailable:
            self._heard |= heard
            raise

    async def abandoned(self) -> list[str]:
        """Names of open samples of this gateway whose clients are gone, and were not heard since that was noted. To be asked
        every few seconds."""
        now_s = self._now_s()
        if now_s - self._looked_s > HELD_S:
            self._listens_since_s = now_s
        self._looked_s = now_s
        if now_s - self._listens_since_s < IDLE_S:
            return []
        silent = await self._store.read(partial(_abandoned, self._store.gateway, now_s))
        return [name for name, sampler in silent if sampler not in self._heard]


def _note(samplers: Collection[str], now_s: float, session: Session) -> None:
    of_them = select(TinkerSampler.session_id).where(col(TinkerSampler.id).in_(samplers))
    noting = update(TinkerSession).where(
        col(TinkerSession.id).in_(of_them), col(TinkerSession.seen_s) < now_s - _NOTED_S
    )
    session.exec(noting.values(seen_s=now_s))


def _abandoned(gateway: str, now_s: float, session: Session) -> list[tuple[str, str]]:
    """With their samplers."""
    query = (
        select(TinkerSample.id, TinkerSample.sampler)
        .join(TinkerSampler, col(TinkerSampler.id) == col(TinkerSample.sampler))
        .join(TinkerSession, col(TinkerSession.id) == col(TinkerSampler.session_id))
        .where(col(TinkerSample.holder) == gateway, col(TinkerSample.done_s).is_(None))
        .where(col(TinkerSession.seen_s) < now_s - IDLE_S)
        .limit(MOST_GONE)
    )
    return list(session.exec(query))
