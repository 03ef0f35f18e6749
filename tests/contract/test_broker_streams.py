"""Streams and topics: what is read again from anywhere, and what is only heard."""

import asyncio
import time

import pytest
from tests.support.brokers import (
    PATIENCE_S,
    Place,
    assert_quiet,
    take,
    take_many,
)

from warren_broker.errors import Unroutable
from warren_broker.port import Broker, FromTime, StreamStart
from warren_broker.topology import Stream


async def append(broker: Broker, stream: Stream, numbers: range) -> None:
    for number in numbers:
        await broker.publish(stream, b"%d" % number, message_id=f"id-{number}")


async def read_numbers(
    broker: Broker, stream: Stream, start: StreamStart, n: int
) -> list[tuple[int, int]]:
    """(offset, number) of the first `n` messages from there."""
    found: list[tuple[int, int]] = []
    async with broker.read(stream, start=start, prefetch=10) as reader:
        while len(found) < n:
            delivery = await take(reader)
            assert delivery.offset is not None
            found.append((delivery.offset, int(delivery.body)))
            await delivery.ack()
    return found


async def test_a_stream_is_read_in_order_from_the_first(place: Place, broker: Broker) -> None:
    stream = place.stream()
    await broker.declare(stream)
    await append(broker, stream, range(50))
    found = await read_numbers(broker, stream, "first", 50)
    assert [number for _, number in found] == list(range(50))
    assert [offset for offset, _ in found] == list(range(50))


async def test_a_stream_is_read_aside_like_any_other(place: Place, broker: Broker) -> None:
    stream = place.stream()
    await broker.declare(stream)
    await append(broker, stream, range(9))
    async with (
        broker.read(stream, start="first", aside=True) as one,
        broker.read(stream, start=8, aside=True) as other,
    ):
        assert [(await take(one)).body for _ in range(9)] == [b"%d" % i for i in range(9)]
        assert (await take(other)).body == b"8"


async def test_a_stream_is_read_again_from_any_offset(place: Place, broker: Broker) -> None:
    stream = place.stream()
    await broker.declare(stream)
    await append(broker, stream, range(20))
    for start in (0, 7, 19):
        found = await read_numbers(broker, stream, start, 20 - start)
        assert found == [(i, i) for i in range(start, 20)]


async def test_next_reads_only_what_comes_from_now_on(place: Place, broker: Broker) -> None:
    stream = place.stream()
    await broker.declare(stream)
    await append(broker, stream, range(3))
    async with broker.read(stream, start="next") as reader:
        await append(broker, stream, range(3, 5))
        assert [(await take(reader)).body for _ in range(2)] == [b"3", b"4"]
        await assert_quiet(reader)


async def test_the_offset_after_the_last_is_what_comes_next(place: Place, broker: Broker) -> None:
    stream = place.stream()
    await broker.declare(stream)
    await append(broker, stream, range(3))
    async with broker.read(stream, start=3) as reader:
        await append(broker, stream, range(3, 4))
        assert (await take(reader)).offset == 3


async def test_a_time_starts_at_what_was_appended_since(place: Place, broker: Broker) -> None:
    stream = place.stream()
    await broker.declare(stream)
    await append(broker, stream, range(3))
    await asyncio.sleep(1.1)  # RabbitMQ takes whole seconds
    since_s = time.time()
    await append(broker, stream, range(3, 6))
    found = await read_numbers(broker, stream, FromTime(since_s), 3)
    assert found[0] == (3, 3)
    assert [number for _, number in found] == [3, 4, 5]


async def test_readers_are_independent(place: Place, broker: Broker) -> None:
    stream, other = place.stream(), await place.client("other")
    await broker.declare(stream)
    await append(broker, stream, range(10))
    async with (
        broker.read(stream, start="first") as slow,
        other.read(stream, start=5) as fast,
    ):
        assert (await take(slow)).body == b"0"
        assert [d.body for d in await take_many(fast, 5)] == [b"%d" % i for i in range(5, 10)]
        assert (await take(slow)).body == b"1"


async def test_prefetch_bounds_what_a_reader_holds(place: Place, broker: Broker) -> None:
    stream = place.stream()
    await broker.declare(stream)
    await append(broker, stream, range(5))
    async with broker.read(stream, start="first", prefetch=2) as reader:
        first, second = await take_many(reader, 2)
        await assert_quiet(reader)
        await first.ack()
        await second.ack()
        assert [d.offset for d in await take_many(reader, 2)] == [2, 3]


async def test_leaving_a_stream_unacked_loses_nothing(place: Place, broker: Broker) -> None:
    stream = place.stream()
    await broker.declare(stream)
    await append(broker, stream, range(3))
    async with broker.read(stream, start="first") as reader:
        await take(reader)
    assert await read_numbers(broker, stream, "first", 3) == [(0, 0), (1, 1), (2, 2)]


async def test_stop_ends_a_reader(place: Place, broker: Broker) -> None:
    stream = place.stream()
    await broker.declare(stream)
    await append(broker, stream, range(3))
    async with broker.read(stream, start="first") as reader:
        held = await take(reader)
        await reader.stop()
        assert [d async for d in reader] == []
        await held.ack()


async def test_a_live_reader_sees_every_offset_once_while_many_append(
    place: Place, broker: Broker
) -> None:
    stream, other, n_writers, n_each = place.stream(), await place.client("writer"), 8, 40
    await broker.declare(stream)

    async def write(writer: int) -> None:
        for i in range(n_each):
            await other.publish(stream, b"%d %d" % (writer, i), message_id=f"{writer}-{i}")

    async with asyncio.TaskGroup() as tasks:
        for writer in range(n_writers):
            tasks.create_task(write(writer))
        async with broker.read(stream, start="first", prefetch=20) as reader:
            bodies: list[bytes] = []
            for offset in range(n_writers * n_each):
                delivery = await take(reader)
                assert delivery.offset == offset
                bodies.append(delivery.body)
                await delivery.ack()
    for writer in range(n_writers):
        own = [body for body in bodies if body.startswith(b"%d " % writer)]
        assert own == [b"%d %d" % (writer, i) for i in range(n_each)]


async def test_large_messages_lie_in_a_stream(place: Place, broker: Broker) -> None:
    stream, body = place.stream(), b"\0\xff" * (512 * 1024)
    await broker.declare(stream)
    for i in range(8):
        await broker.publish(stream, body, message_id=f"{i}")
    async with broker.read(stream, start="first", prefetch=4) as reader:
        for offset in range(8):
            delivery = await take(reader)
            assert delivery.offset == offset
            assert delivery.body == body
            await delivery.ack()


async def test_appending_to_an_unknown_stream_is_unroutable(place: Place, broker: Broker) -> None:
    with pytest.raises(Unroutable):
        await broker.publish(place.stream(), b"x", message_id="1", timeout_s=PATIENCE_S)


async def test_a_deleted_stream_starts_over(place: Place, broker: Broker) -> None:
    stream = place.stream()
    await broker.declare(stream)
    await append(broker, stream, range(3))
    await broker.delete(stream)
    await broker.declare(stream)
    await append(broker, stream, range(7, 8))
    assert await read_numbers(broker, stream, "first", 1) == [(0, 7)]


async def test_deleting_a_stream_ends_its_readers(place: Place, broker: Broker) -> None:
    stream, other = place.stream(), await place.client("other")
    async with broker.read(stream, start="first") as reader:
        await other.delete(stream)
        async with asyncio.timeout(PATIENCE_S):
            assert [d async for d in reader] == []


async def test_events_reach_everybody_who_listens(place: Place, broker: Broker) -> None:
    topic, other = place.topic(), await place.client("other")
    async with broker.subscribe(topic) as mine, other.subscribe(topic) as theirs:
        await broker.publish(topic, b"1", message_id="1")
        for subscriber in (mine, theirs):
            event = await take(subscriber)
            assert (event.body, event.message_id, event.offset) == (b"1", "1", None)
            await event.ack()


async def test_events_are_not_kept(place: Place, broker: Broker) -> None:
    topic = place.topic()
    await broker.publish(topic, b"unheard", message_id="1")
    async with broker.subscribe(topic) as subscriber:
        await broker.publish(topic, b"heard", message_id="2")
        assert (await take(subscriber)).body == b"heard"


async def test_a_listener_that_leaves_hears_no_more(place: Place, broker: Broker) -> None:
    topic = place.topic()
    async with broker.subscribe(topic) as subscriber:
        await subscriber.stop()
        assert [d async for d in subscriber] == []
    await broker.publish(topic, b"1", message_id="1")


async def test_a_listener_that_sleeps_holds_nobody_up(place: Place, broker: Broker) -> None:
    topic = place.topic()
    async with broker.subscribe(topic) as subscriber:
        for i in range(1500):
            await broker.publish(topic, b"%d" % i, message_id=f"{i}", timeout_s=PATIENCE_S)
        last = -1
        while last != 1499:
            number = int((await take(subscriber)).body)
            assert number > last
            last = number
