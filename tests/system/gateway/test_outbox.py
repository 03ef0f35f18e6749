"""The outbox of gateways that share a store: each sends its own, and what a dead one left behind."""

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from sqlmodel import Session, select
from tests.support.brokers import depth_is, eventually
from tests.support.commits import commits

from warren_broker.port import Broker
from warren_broker.topology import WorkQueue
from warren_gateway.store.outbox import LOOK_S, PAGE, Relay, has_posted, post, post_all
from warren_gateway.store.store import Store
from warren_gateway.store.tables import OutboxRow
from warren_schemas.codec.wire import decode
from warren_schemas.control import RunEnded
from warren_schemas.envelope import Envelope
from warren_schemas.ids import ModelId, RunId

THEIRS, OURS = WorkQueue("theirs"), WorkQueue("ours")
ITEM = RunEnded(envelope=Envelope(), ended_run=RunId("run_1"), model=ModelId("model_1"))


@asynccontextmanager
async def relaying(
    store: Store, broker: Broker, *, look_s: float = LOOK_S, page: int = PAGE
) -> AsyncGenerator[Relay]:
    relay = Relay(store, broker, look_s=look_s, page=page)
    task = asyncio.create_task(relay.run(), name="relay")
    try:
        yield relay
    finally:
        task.cancel()
        await asyncio.wait({task})


@pytest.fixture
async def stores(private_postgres: str) -> AsyncGenerator[tuple[Store, Store]]:
    dead, alive = await Store.open(private_postgres), await Store.open(private_postgres)
    yield dead, alive
    await dead.close()
    await alive.close()


async def test_a_gateway_leaves_the_messages_of_others_to_them(
    stores: tuple[Store, Store], broker: Broker
) -> None:
    theirs, ours = stores
    await broker.declare(THEIRS, OURS)
    await theirs.transact(lambda session: post(session, THEIRS, ITEM))
    await ours.transact(lambda session: post(session, OURS, ITEM))
    async with relaying(ours, broker, look_s=3600.0):
        await depth_is(broker, OURS, 1)
        assert await broker.depth(THEIRS) == 0
    async with relaying(theirs, broker, look_s=3600.0):
        await depth_is(broker, THEIRS, 1)


async def test_what_a_dead_gateway_left_behind_is_sent_by_another(
    stores: tuple[Store, Store], broker: Broker
) -> None:
    dead, alive = stores
    await broker.declare(THEIRS)
    await dead.transact(lambda session: post(session, THEIRS, ITEM))
    async with relaying(alive, broker, look_s=0.1):
        await depth_is(broker, THEIRS, 1)


async def test_an_address_that_takes_nothing_holds_no_other_back(
    tmp_path: Path, broker: Broker
) -> None:
    """More pages than one go to the others while it hangs."""
    full = WorkQueue("full", max_messages=1)
    store = await Store.open(f"sqlite:///{tmp_path / 'warren.db'}")
    await broker.declare(full, OURS)
    await store.transact(lambda session: _post_each(session, full, 3))
    await store.transact(lambda session: _post_each(session, OURS, 5))
    async with relaying(store, broker, page=2):
        await depth_is(broker, OURS, 5)
        assert await broker.depth(full) == 1
        async with broker.consume(full, prefetch=1) as consumer:
            for _ in range(3):
                await (await anext(aiter(consumer))).ack()
    await store.close()


def _post_each(session: Session, address: WorkQueue, n: int) -> None:
    for _ in range(n):
        post(session, address, ITEM)


async def test_what_nobody_waits_for_leaves_with_what_is_posted_next(
    tmp_path: Path, broker: Broker
) -> None:
    store = await Store.open(f"sqlite:///{tmp_path / 'warren.db'}")
    await broker.declare(THEIRS, OURS)

    def unawaited(session: Session) -> bool:
        post_all(session, [(OURS, ITEM)], is_awaited=False)
        return has_posted(session)

    async with relaying(store, broker, look_s=3600.0) as relay:
        await store.transact(lambda session: post(session, THEIRS, ITEM))
        relay.notify()
        await depth_is(broker, THEIRS, 1)
        assert not await store.transact(unawaited)
        await store.transact(lambda session: post(session, THEIRS, ITEM))
        relay.notify()
        await depth_is(broker, THEIRS, 2)
        await depth_is(broker, OURS, 1)
    await store.close()


async def test_the_transaction_that_posts_is_the_only_one_before_it_is_sent(
    tmp_path: Path, broker: Broker
) -> None:
    store = await Store.open(f"sqlite:///{tmp_path / 'warren.db'}")
    await broker.declare(OURS)
    async with relaying(store, broker, look_s=3600.0):
        await store.transact(lambda session: post(session, OURS, ITEM))
        await depth_is(broker, OURS, 1)
        await until_forgotten(store)
        with commits() as seen:
            await store.transact(lambda session: post(session, OURS, ITEM))
            async with broker.consume(OURS, prefetch=2) as consumer:
                for _ in range(2):
                    await (await anext(aiter(consumer))).ack()
        assert len(seen) == 1
        await until_forgotten(store)
    await store.close()


async def until_forgotten(store: Store) -> None:
    async def is_empty() -> bool:
        return await store.read(lambda session: session.exec(select(OutboxRow.id)).first()) is None

    await eventually(is_empty)


async def test_each_address_is_sent_everything_once_and_in_order_while_much_is_posted(
    tmp_path: Path, broker: Broker
) -> None:
    store = await Store.open(f"sqlite:///{tmp_path / 'warren.db'}")
    queues = [WorkQueue(f"queue_{n}") for n in range(3)]
    await broker.declare(*queues)
    posted = [(queue, RunId(f"run_{n}")) for n in range(100) for queue in queues]

    def work(queue: WorkQueue, run: RunId) -> Callable[[Session], None]:
        item = ITEM.model_copy(update={"ended_run": run})
        return lambda session: post(session, queue, item)

    async with relaying(store, broker, look_s=3600.0):
        posting = [store.transact(work(queue, run)) for queue, run in posted]
        for start in range(0, len(posting), 7):
            await asyncio.gather(*posting[start : start + 7])
        for queue in queues:
            await depth_is(broker, queue, 100)
            got = list[str]()
            async with broker.consume(queue, prefetch=100) as consumer:
                async for delivery in consumer:
                    got.extend(
                        item.ended_run
                        for item in decode(delivery.body).items
                        if isinstance(item, RunEnded)
                    )
                    await delivery.ack()
                    if len(got) == 100:
                        break
            assert got == [f"run_{n}" for n in range(100)]
        await until_forgotten(store)
    await store.close()
