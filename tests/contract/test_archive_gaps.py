"""What an archivist takes for lost, where the offsets of a stream jump: every broker has reasons of its own."""

from dataclasses import replace

from tests.support.brokers import Place, eventually, take

from warren_broker.port import Broker
from warren_broker.topology import Stream
from warren_gateway.archive.gaps import as_ranges, lost

BODY = bytes(1_000_000)


async def fill(broker: Broker, stream: Stream, n: int) -> None:
    await broker.declare(stream)
    for number in range(n):
        await broker.publish(stream, BODY, message_id=f"id-{number}")


async def oldest(broker: Broker, stream: Stream) -> int:
    async with broker.read(stream, start="first", prefetch=1) as consumer:
        return (await take(consumer)).offset or 0


async def test_an_offset_that_never_held_a_message_is_no_loss(place: Place) -> None:
    broker, stream = await place.client(), replace(place.stream(), max_size_bytes=40_000_000)
    await fill(broker, stream, 12)
    offsets: list[int] = []
    async with broker.read(stream, start="first") as consumer:
        for _ in range(12):
            delivery = await take(consumer)
            offsets.append(delivery.offset or 0)
            await delivery.ack()
    gaps = as_ranges(sorted(set(range(offsets[-1])) - set(offsets)))
    assert bool(gaps) == (place.kind == "rabbitmq")
    for gap in gaps:
        assert await lost(broker, stream, gap) == []


async def test_what_was_dropped_is_lost(place: Place) -> None:
    broker, stream = await place.client(), replace(place.stream(), max_size_bytes=8_000_000)
    await fill(broker, stream, 24)

    async def is_dropped() -> bool:
        return await oldest(broker, stream) > 3

    await eventually(is_dropped)
    assert await lost(broker, stream, range(1, 4)) == [range(1, 4)]


async def test_what_is_there_and_was_not_read_is_lost(place: Place) -> None:
    broker, stream = await place.client(), place.stream()
    await fill(broker, stream, 4)
    assert await lost(broker, stream, range(1, 3)) == [range(1, 3)]
