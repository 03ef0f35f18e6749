"""Queues whose making was cut short, by a server that is killed in the middle of it or is too slow."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import AbstractAsyncContextManager, asynccontextmanager

from aio_pika import Message, connect
from aio_pika.abc import AbstractChannel
from tests.support.brokers import PATIENCE_S, take
from tests.support.private_rabbit import PrivateRabbit
from yarl import URL

from warren_broker.errors import Unroutable
from warren_broker.port import Broker
from warren_broker.rabbitmq import open_rabbitmq
from warren_broker.rabbitmq.connection.connection import Link
from warren_broker.rabbitmq.connection.failures import Lost
from warren_broker.rabbitmq.connection.timings import Timings
from warren_broker.rabbitmq.entities.declare_calls import Declare, declare
from warren_broker.rabbitmq.entities.declared_entities import DeclaredEntities
from warren_broker.rabbitmq.entities.durable_declaring import AT_ONCE, DurableDeclarer
from warren_broker.rabbitmq.entities.entities import Entities, Entity, QueueEntity
from warren_broker.topology import Home, Stream, WorkQueue

LONGER_THAN_DELETING_S = 1.0
PREFIX = "declaring."


def opened(node: PrivateRabbit) -> AbstractAsyncContextManager[Broker]:
    return open_rabbitmq(node.url, name="test", prefix=PREFIX)


@asynccontextmanager
async def declared_of(
    node: PrivateRabbit, declare_one: Declare
) -> AsyncGenerator[DeclaredEntities]:
    """What a broker declares with, whose queues are made by `declare_one`."""
    link = Link(URL(node.url), description="RabbitMQ")
    await link.start(timeout_s=PATIENCE_S)
    declarer = DurableDeclarer(link.timings.durable_after_s, declare_one=declare_one)
    declared = DeclaredEntities(link, Entities(PREFIX), declarer)
    keeping = asyncio.create_task(declared.keep(), name="declared entities")
    try:
        yield declared
    finally:
        keeping.cancel()
        await link.close()


def cut_short(name: str, arguments: dict[str, str | int], body: bytes | None) -> Declare:
    """The first making of this queue ends half way: with these arguments, and a message or none."""
    names: list[str] = []

    async def half(channel: AbstractChannel, entity: Entity) -> None:
        if not isinstance(entity, QueueEntity) or not entity.name.endswith(name) or names:
            return await declare(channel, entity)
        names.append(entity.name)
        await declare(channel, QueueEntity(entity.name, arguments or entity.arguments))
        if body is not None:
            await channel.default_exchange.publish(Message(body), routing_key=entity.name)
        await (await channel.get_underlay_channel()).connection.close()
        raise Lost("the server was killed")

    return half


async def test_it_is_made_anew(private_rabbit: PrivateRabbit) -> None:
    """What is there has not been told of its arguments; declaring it with them would be refused."""
    queue = WorkQueue("cut-short", expires_s=60.0)
    half = cut_short(queue.name, {"x-queue-type": "quorum"}, body=None)
    async with opened(private_rabbit) as broker, declared_of(private_rabbit, half) as declared:
        await declared.declare(queue)
        assert await broker.depth(queue) == 0
        await broker.delete(queue)


async def test_a_home_is_made_anew_too(private_rabbit: PrivateRabbit) -> None:
    """It has had a leader for a while then: one that goes in its first moment harms all others."""
    fallback = WorkQueue("cut-short-fallback")
    home = Home("home.cut-short", fallback, grace_s=1.0)
    half = cut_short(home.name, {}, body=None)
    async with opened(private_rabbit) as broker, declared_of(private_rabbit, half) as declared:
        await declared.declare(home)
        await broker.publish(home, b"falls back", message_id="1")
        async with broker.consume(fallback, prefetch=1) as consumer:
            await (await take(consumer)).ack()
        await broker.delete(home, fallback)


async def test_one_that_is_of_use_already_stays(private_rabbit: PrivateRabbit) -> None:
    queue = WorkQueue("cut-late")
    half = cut_short(queue.name, {}, body=b"somebody was faster")
    async with opened(private_rabbit) as broker, declared_of(private_rabbit, half) as declared:
        await declared.declare(queue)
        assert await broker.depth(queue) == 1
        await broker.delete(queue)


async def test_what_a_slow_server_has_made_stays(private_rabbit: PrivateRabbit) -> None:
    """Many queues take a busy server longer than an attempt may take; the next one gets further."""
    first, second = WorkQueue("slow-first"), WorkQueue("slow-second")
    names = list[str]()

    async def slow(channel: AbstractChannel, entity: Entity) -> None:
        if entity.name.endswith(second.name) and entity.name not in names:
            names.append(entity.name)
            raise Lost("no answer in time")
        await declare(channel, entity)
        if entity.name.endswith(first.name) and entity.name not in names:
            names.append(entity.name)
            await (await channel.get_underlay_channel()).queue_bind(entity.name, "amq.fanout")

    async with opened(private_rabbit) as broker, declared_of(private_rabbit, slow) as declared:
        await declared.declare(first, second)
        async with await connect(private_rabbit.url) as connection:
            exchange = await (await connection.channel()).get_exchange("amq.fanout")
            await exchange.publish(Message(b"to what is bound"), routing_key="", mandatory=False)
        assert await broker.depth(first) == 1
        await broker.delete(first, second)


async def test_nothing_is_published_to_what_is_not_safe_from_a_crash_yet(
    private_rabbit: PrivateRabbit,
) -> None:
    """A server that is killed in its first second forgets it, and what it has confirmed for it."""
    young, old = Stream("young"), Stream("old")
    slow = Timings(durable_after_s=PATIENCE_S)
    async with (
        opened(private_rabbit) as other,
        open_rabbitmq(private_rabbit.url, name="test", prefix=PREFIX, timings=slow) as broker,
    ):
        await other.declare(old)
        making = asyncio.create_task(broker.declare(young))
        while True:
            try:
                await other.publish(young, b"it is there", message_id="1")
                break
            except Unroutable:
                await asyncio.sleep(0.05)  # the server has no event for us
        publishing = asyncio.create_task(broker.publish(young, b"waits", message_id="2"))
        for n in range(20):
            await broker.publish(old, b"goes", message_id=str(n))
        assert not publishing.done()
        making.cancel()
        publishing.cancel()
        await asyncio.wait([making, publishing])
        await other.delete(young, old)


async def test_however_many_are_declared_at_once_a_few_are_made_at_a_time(
    private_rabbit: PrivateRabbit,
) -> None:
    """Each takes a channel while it is made, and a connection breaks that is asked for too many."""
    n_now, n_most, n_made = 0, 0, 0

    async def counted(channel: AbstractChannel, entity: Entity) -> None:
        nonlocal n_now, n_most, n_made
        n_now += 1
        n_most = max(n_most, n_now)
        await declare(channel, entity)
        n_now -= 1
        n_made += 1

    queues = [WorkQueue(f"many-{n}", expires_s=60.0) for n in range(3 * AT_ONCE)]
    async with declared_of(private_rabbit, counted) as declared:
        await asyncio.gather(*map(declared.declare, queues))
        await declared.delete(*queues)
    assert n_made >= len(queues)
    assert n_most <= AT_ONCE


async def test_what_is_deleted_while_it_is_declared_again_does_not_come_back(
    private_rabbit: PrivateRabbit,
) -> None:
    """As when the connection is lost in the moment in which a run's queues go."""
    queue, other = WorkQueue("comes-back"), WorkQueue("loses-connection")
    begun, restored, names = asyncio.Event(), asyncio.Event(), list[str]()

    async def late(channel: AbstractChannel, entity: Entity) -> None:
        if entity.name.endswith(other.name) and not names:
            names.append(entity.name)
            await (await channel.get_underlay_channel()).connection.close()
            raise Lost("the connection was closed")
        if entity.name.endswith(queue.name) and names:
            begun.set()
            await asyncio.wait({deleting}, timeout=LONGER_THAN_DELETING_S)
            await declare(channel, entity)
            return restored.set()
        await declare(channel, entity)

    async def delete() -> None:
        await begun.wait()
        await declared.delete(queue)

    async with opened(private_rabbit) as broker, declared_of(private_rabbit, late) as declared:
        await declared.declare(queue)
        deleting = asyncio.create_task(delete())
        await declared.declare(other)
        await asyncio.gather(deleting, restored.wait())
        assert await broker.depth(queue) is None
        await broker.delete(other)
