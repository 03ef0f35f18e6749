"""What lies between two messages of a stream that a reader was handed one after the other.

Offsets jump over what the retention has dropped and over what can't be read, but also without any loss:
RabbitMQ gives an offset to an entry of its own at the beginning of each segment. Such an offset holds no
message and yet is not older than the oldest one that is kept.
"""

import asyncio
from collections.abc import AsyncGenerator, Collection, Iterable
from contextlib import asynccontextmanager

from warren_broker.errors import BrokerUnavailable
from warren_broker.port import Broker, Consumer, StreamStart
from warren_broker.topology import Stream

LOOK_S = 60.0
"""How long the broker may take to show what it has."""
PREFETCH = 4


async def lost(broker: Broker, stream: Stream, gap: range) -> list[range]:
    """Which of these offsets, that no reader was handed, were messages. Raises `BrokerUnavailable`.

    Where the oldest message that is kept lies right behind an entry of RabbitMQ's own, that counts as lost:
    rather one too many than one too few.
    """
    unreadable = await _held(broker, stream, gap)
    oldest = await _oldest(broker, stream)
    return as_ranges(offset for offset in gap if offset < oldest or offset in unreadable)


def as_ranges(offsets: Iterable[int]) -> list[range]:
    """Of rising numbers, those that follow each other as one."""
    ranges: list[range] = []
    for offset in offsets:
        if ranges and ranges[-1].stop == offset:
            ranges[-1] = range(ranges[-1].start, offset + 1)
        else:
            ranges.append(range(offset, offset + 1))
    return ranges


async def _held(broker: Broker, stream: Stream, gap: range) -> Collection[int]:
    """Offsets of the gap that hold a message."""
    held: set[int] = set()
    async with _looking(broker, stream, gap.start) as consumer:
        async for delivery in consumer:
            await delivery.ack()
            if (offset := delivery.offset or 0) >= gap.stop:
                break
            held.add(offset)
    return held


async def _oldest(broker: Broker, stream: Stream) -> int:
    async with _looking(broker, stream, "first") as consumer:
        async for delivery in consumer:
            await delivery.ack()
            return delivery.offset or 0
    raise BrokerUnavailable(f"{stream.name} was deleted")


@asynccontextmanager
async def _looking(broker: Broker, stream: Stream, start: StreamStart) -> AsyncGenerator[Consumer]:
    try:
        async with (
            asyncio.timeout(LOOK_S),
            broker.read(stream, start=start, prefetch=PREFETCH) as consumer,
        ):
            yield consumer
    except TimeoutError as error:
        raise BrokerUnavailable(f"{stream.name} gave nothing for {LOOK_S:g} s") from error
