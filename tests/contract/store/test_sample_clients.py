"""Clients of samples, in the store that gateways share: those that are gone are known, and no others are taken for it."""

from collections.abc import AsyncGenerator, Callable
from typing import TypeVar

import pytest
from sqlmodel import Session
from tests.support.clock import Clock

from warren_gateway.store.store import Store, StoreUnavailable
from warren_gateway.store.tables import TinkerSampler, TinkerSession, User
from warren_gateway.tinker.creating import IDLE_S
from warren_gateway.tinker.samples.clients import SampleClients
from warren_gateway.tinker.samples.rows import HELD_S, SampleRows

T = TypeVar("T")
SAMPLER = "session_1:sample:0"
NAME = f"{SAMPLER}:7"


class AwayOnce(Store):
    """It is away the first time that something is to be written."""

    has_been_away = False

    async def transact(self, work: Callable[[Session], T]) -> T:
        if not self.has_been_away:
            self.has_been_away = True
            raise StoreUnavailable("it is away")
        return await super().transact(work)


@pytest.fixture
async def store(any_store_url: str) -> AsyncGenerator[Store]:
    """With a sample of Ann's, of whose client nothing was heard for a while."""
    store = await Store.open(any_store_url)
    await store.transact(_open_sampler)
    await SampleRows(store, lambda: None).add("ann", NAME, b"asked")
    yield store
    await store.close()


def _open_sampler(session: Session) -> None:
    session.add(User(name="ann", created_s=1.0))
    session.flush()
    session.add(TinkerSession(id="session_1", owner="ann", created_s=1.0, seen_s=-IDLE_S))
    session.flush()
    session.add(
        TinkerSampler(id=SAMPLER, session_id="session_1", base_model="m", policy={}, created_s=1.0)
    )


async def looked(clients: SampleClients, clock: Clock, for_s: float) -> list[str]:
    """What is abandoned then, where it is asked every few seconds until then."""
    ends_s = clock.now_s + for_s
    while clock.now_s < ends_s:
        assert await clients.abandoned() == []
        clock.now_s += HELD_S / 3
    return await clients.abandoned()


async def test_samples_of_a_client_that_is_gone_are_abandoned_once_their_gateway_has_listened(
    store: Store,
) -> None:
    clients = SampleClients(store, clock := Clock())
    assert await looked(clients, clock, IDLE_S) == [NAME]
    await SampleRows(store, lambda: None).lose(NAME)
    assert await clients.abandoned() == []


async def test_who_asks_or_polls_is_there(store: Store) -> None:
    clients = SampleClients(store, clock := Clock())
    clients.heard(SAMPLER)
    await clients.note()
    assert await looked(clients, clock, IDLE_S) == []
    assert await looked(clients, clock, HELD_S / 3) == [NAME], "by the same clock"


async def test_who_is_heard_while_the_store_is_away_is_written_down_once_it_is_back(
    store: Store, any_store_url: str
) -> None:
    once = await AwayOnce.open(any_store_url)
    hearing, clock = SampleClients(once), Clock()
    hearing.heard(SAMPLER)
    with pytest.raises(StoreUnavailable):
        await hearing.note()
    await hearing.note()
    await once.close()
    assert await looked(SampleClients(store, clock), clock, IDLE_S) == []


async def test_who_is_heard_while_silent_ones_are_looked_for_is_there(store: Store) -> None:
    clients = SampleClients(store, clock := Clock())
    assert await looked(clients, clock, IDLE_S) == [NAME]
    clients.heard(SAMPLER)
    assert await clients.abandoned() == []


async def test_a_gateway_that_stood_still_has_heard_nobody(store: Store) -> None:
    clients = SampleClients(store, clock := Clock())
    clock.now_s += 2 * IDLE_S
    assert await looked(clients, clock, IDLE_S) == [NAME]


async def test_samples_of_another_gateway_are_left_to_it(store: Store, any_store_url: str) -> None:
    other = await Store.open(any_store_url)
    clients = SampleClients(other, clock := Clock())
    assert await looked(clients, clock, IDLE_S) == []
    await other.close()
