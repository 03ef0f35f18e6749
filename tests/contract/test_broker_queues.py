"""Work queues: confirm, depth, prefetch, sharing, back-pressure, closing."""

import asyncio
from collections import Counter
from contextlib import suppress

import pytest
from tests.support.brokers import (
    PATIENCE_S,
    Place,
    assert_quiet,
    depth_is,
    eventually,
    publish_bodies,
    take,
    take_many,
)

from warren_broker.errors import BrokerClosed, Unroutable
from warren_broker.port import Broker, Consumer


async def test_a_message_arrives_once_and_whole(place: Place, broker: Broker) -> None:
    queue = place.queue()
    await broker.declare(queue)
    await broker.publish(queue, b"hello", message_id="msg_1")
    async with broker.consume(queue, prefetch=5) as consumer:
        delivery = await take(consumer)
        assert delivery.body == b"hello"
        assert delivery.message_id == "msg_1"
        assert delivery.n_deliveries == 1
        assert delivery.offset is None
        await delivery.ack()
        await assert_quiet(consumer)


async def test_a_mebibyte_arrives_unchanged(place: Place, broker: Broker) -> None:
    queue = place.queue()
    body = bytes(range(256)) * 4096
    await broker.declare(queue)
    await broker.publish(queue, body, message_id="large")
    async with broker.consume(queue, prefetch=1) as consumer:
        delivery = await take(consumer)
        assert delivery.body == body
        await delivery.ack()


async def test_publishing_to_an_unknown_queue_is_unroutable(place: Place, broker: Broker) -> None:
    with pytest.raises(Unroutable):
        await broker.publish(place.queue("nobody"), b"x", message_id="1", timeout_s=PATIENCE_S)


async def test_publishing_to_a_deleted_queue_is_unroutable(place: Place, broker: Broker) -> None:
    queue = place.queue()
    await broker.declare(queue)
    await broker.delete(queue)
    with pytest.raises(Unroutable):
        await broker.publish(queue, b"x", message_id="1", timeout_s=PATIENCE_S)


async def test_declare_and_delete_are_idempotent(place: Place, broker: Broker) -> None:
    queue, stream, topic = place.queue(), place.stream(), place.topic()
    home = place.home(queue)
    for _ in range(2):
        await broker.declare(queue, home, stream, topic)
    for _ in range(2):
        await broker.delete(queue, home, stream, topic)


async def test_a_queue_keeps_its_messages_when_declared_again(place: Place, broker: Broker) -> None:
    queue = place.queue()
    await broker.declare(queue)
    await publish_bodies(broker, queue, b"1")
    await broker.declare(queue)
    async with broker.consume(queue, prefetch=1) as consumer:
        await (await take(consumer)).ack()


async def test_an_idle_queue_is_forgotten_and_one_with_a_consumer_is_not(
    place: Place, broker: Broker
) -> None:
    kept, idle = place.queue("kept", expires_s=1.0), place.queue("idle", expires_s=1.0)
    await broker.declare(kept)

    async def is_forgotten() -> bool:
        return await broker.depth(idle) is None

    async with broker.consume(kept, prefetch=1) as consumer:
        await broker.declare(idle)  # it would outlive the other one
        with suppress(Unroutable):  # a slow machine has forgotten it already
            await publish_bodies(broker, idle, b"nobody-comes")
        await eventually(is_forgotten)
        with pytest.raises(Unroutable):
            await broker.publish(idle, b"x", message_id="2", timeout_s=PATIENCE_S)
        await publish_bodies(broker, kept, b"1")
        await (await take(consumer)).ack()


async def test_a_forgotten_queue_is_made_anew_by_who_consumes(place: Place, broker: Broker) -> None:
    queue = place.queue(expires_s=1.0)
    await broker.declare(queue)

    async def is_forgotten() -> bool:
        return await broker.depth(queue) is None

    await eventually(is_forgotten)
    async with broker.consume(queue, prefetch=1) as consumer:
        await publish_bodies(broker, queue, b"1")
        await (await take(consumer)).ack()


async def test_consuming_declares_the_queue(place: Place, broker: Broker) -> None:
    queue = place.queue()
    async with broker.consume(queue, prefetch=1) as consumer:
        await publish_bodies(broker, queue, b"1")
        await (await take(consumer)).ack()


async def test_depth_counts_what_waits(place: Place, broker: Broker) -> None:
    queue = place.queue()
    assert await broker.depth(queue) is None
    await broker.declare(queue)
    assert await broker.depth(queue) == 0
    await publish_bodies(broker, queue, b"1", b"2", b"3")
    await depth_is(broker, queue, 3)
    await broker.delete(queue)
    assert await broker.depth(queue) is None


async def test_prefetch_bounds_what_is_unacknowledged(place: Place, broker: Broker) -> None:
    queue = place.queue()
    await broker.declare(queue)
    await publish_bodies(broker, queue, b"1", b"2", b"3", b"4")
    async with broker.consume(queue, prefetch=2) as consumer:
        first, _ = await take_many(consumer, 2)
        await assert_quiet(consumer)
        assert await broker.depth(queue) == 2
        await first.ack()
        assert (await take(consumer)).body == b"3"
        await assert_quiet(consumer)


async def test_consumers_share_a_queue(place: Place, broker: Broker) -> None:
    queue, other = place.queue(), await place.client("other")
    async with (
        broker.consume(queue, prefetch=1) as mine,
        other.consume(queue, prefetch=1) as theirs,
    ):
        await publish_bodies(broker, queue, b"1", b"2")
        assert {(await take(mine)).body, (await take(theirs)).body} == {b"1", b"2"}


async def test_a_cancelled_wait_takes_nothing(place: Place, broker: Broker) -> None:
    queue = place.queue()
    async with broker.consume(queue, prefetch=1) as consumer:
        waiting = asyncio.create_task(take(consumer))
        await assert_quiet_task(waiting)
        await publish_bodies(broker, queue, b"1")
        assert (await take(consumer)).body == b"1"


async def assert_quiet_task(task: "asyncio.Task[object]") -> None:
    """Let it start to wait, then cancel it."""
    await asyncio.wait([task], timeout=0.05)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_a_full_queue_holds_publishers_back_until_it_drains(
    place: Place, broker: Broker
) -> None:
    queue = place.queue(max_messages=10)
    await broker.declare(queue)
    bodies = [b"%d" % i for i in range(40)]
    publishing = asyncio.gather(*(publish_bodies(broker, queue, body) for body in bodies))
    await asyncio.wait([publishing], timeout=0.5)
    assert not publishing.done()
    seen: set[bytes] = set()
    async with broker.consume(queue, prefetch=5) as consumer:
        while len(seen) < len(bodies):
            delivery = await take(consumer)
            seen.add(delivery.body)
            await delivery.ack()
    await asyncio.wait_for(publishing, PATIENCE_S)
    assert seen == set(bodies)


async def test_deleting_a_queue_ends_its_consumers(place: Place, broker: Broker) -> None:
    queue, other = place.queue(), await place.client("other")
    async with broker.consume(queue, prefetch=1) as consumer:
        await other.delete(queue)
        async with asyncio.timeout(PATIENCE_S):
            assert [d async for d in consumer] == []


async def test_a_closed_broker_refuses_and_ends_what_waits(place: Place) -> None:
    queue, broker = place.queue(), await place.client("closing")
    async with broker.consume(queue, prefetch=1) as consumer:
        waiting = asyncio.create_task(take(consumer))
        await asyncio.wait([waiting], timeout=0.05)
        await broker.close()
        with pytest.raises(BrokerClosed):
            await waiting
    with pytest.raises(BrokerClosed):
        await broker.publish(queue, b"x", message_id="1")
    with pytest.raises(BrokerClosed):
        await broker.declare(queue)
    await broker.close()


async def test_a_publish_that_waits_for_a_full_queue_is_ended_by_close(place: Place) -> None:
    queue, broker = place.queue(max_messages=1), await place.client("closing")
    await broker.declare(queue)

    async def flood() -> None:
        while True:
            await publish_bodies(broker, queue, b"x")

    flooding = [asyncio.create_task(flood()) for _ in range(5)]
    await asyncio.wait(flooding, timeout=0.3)
    await broker.close()
    async with asyncio.timeout(PATIENCE_S):
        outcomes = await asyncio.gather(*flooding, return_exceptions=True)
    assert [type(outcome) for outcome in outcomes] == [BrokerClosed] * 5


async def test_every_message_of_many_publishers_reaches_one_of_many_consumers(
    place: Place, broker: Broker
) -> None:
    """Every id is seen, although every tenth delivery is nacked; in the end nothing is left."""
    queue, n_publishers, n_each = place.queue(), 10, 100
    wanted = {f"{p}-{i}" for p in range(n_publishers) for i in range(n_each)}
    seen: Counter[str] = Counter()
    done = asyncio.Event()
    await broker.declare(queue)

    async def produce(publisher: int) -> None:
        for i in range(n_each):
            await broker.publish(queue, b"x" * 200, message_id=f"{publisher}-{i}")

    async def work(client: Broker) -> None:
        async with client.consume(queue, prefetch=20) as consumer:
            stopper = asyncio.create_task(stop_when_done(consumer))
            async for delivery in consumer:
                if delivery.n_deliveries == 1 and delivery.message_id.endswith("0"):
                    await delivery.nack()
                    continue
                await delivery.ack()
                seen[delivery.message_id] += 1
                if seen.keys() == wanted:
                    done.set()
            await stopper

    async def stop_when_done(consumer: Consumer) -> None:
        await done.wait()
        await consumer.stop()

    clients = [await place.client(f"worker {i}") for i in range(4)]
    async with asyncio.timeout(PATIENCE_S), asyncio.TaskGroup() as tasks:
        for client in clients:
            tasks.create_task(work(client))
        for publisher in range(n_publishers):
            tasks.create_task(produce(publisher))
    assert seen == dict.fromkeys(wanted, 1)

    async def is_empty() -> bool:
        return await broker.depth(queue) == 0

    await eventually(is_empty)
