"""What a gateway of Tinker's clients tells from memory, and that the store says the same."""

import asyncio
from collections.abc import AsyncGenerator

import pytest
from sqlmodel import Session, delete, update
from tests.support.gateway import Gateway, heartbeat
from tests.support.rote_sampler import BASE, answering
from tests.support.sampling_gateway import running
from tests.support.tinker import Wire

from warren_gateway.store.tables import TinkerSample, TinkerSampler
from warren_gateway.tinker.sessions import NoSuchSampler
from warren_schemas.control import WorkerRole


@pytest.fixture
async def sampled(gateway: Gateway) -> AsyncGenerator[Gateway]:
    """Its samples are answered by rote."""
    async with answering(gateway, asyncio.Queue()), running(gateway.services.tinker.futures.run()):
        yield gateway


async def test_an_outcome_that_was_not_fetched_is_told_without_the_store_and_again_by_it(
    sampled: Gateway,
) -> None:
    ann = Wire(sampled.ann)
    sampler = await ann.sampler(await ann.session(), base_model=BASE)
    names = [(await ann.ask(sampler, number, [2, 5, 7]))["request_id"] for number in range(2)]
    n_done, cursor = 0, 0
    while n_done < 2:
        told = await ann.completed(sampler, cursor)
        n_done, cursor = n_done + len(told["completions"]), told["cursor"]
    first = await ann.outcome(names[0])
    assert isinstance(first, bytes)
    assert await ann.outcome(names[0]) == first, "who comes again is told by the store"
    await Wire(sampled.bob).outcome(names[1], status=410)
    await sampled.store.transact(lambda session: session.exec(_WITHOUT_OUTCOMES))
    assert isinstance(await ann.outcome(names[1]), bytes)
    await ann.outcome(names[1], status=410)


async def test_a_sampler_that_stays_is_known_to_its_owner_without_the_store(
    gateway: Gateway,
) -> None:
    sessions, ann = gateway.services.tinker.sessions, Wire(gateway.ann)
    gateway.services.registry.hear(heartbeat("sampler_1", WorkerRole.SAMPLER, BASE))
    sampler = await ann.sampler(await ann.session(), base_model=BASE)
    known = await sessions.sampler("ann", sampler)

    def forget(session: Session) -> None:
        session.exec(delete(TinkerSampler))

    await gateway.store.transact(forget)
    assert (await sessions.sampler("ann", sampler)).policy == known.policy
    with pytest.raises(NoSuchSampler):
        await sessions.sampler("bob", sampler)


_WITHOUT_OUTCOMES = update(TinkerSample).values(outcome=None)
