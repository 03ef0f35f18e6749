"""Those who follow a stream: each gets all of it, once and in order, whoever else follows."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import cast

import pytest
from tests.support.gateway import event, publish_events, step
from tests.support.patience import PATIENCE_S

from warren_broker.errors import BrokerUnavailable
from warren_broker.port import Broker, Consumer, StreamStart
from warren_broker.topology import Stream, run_events
from warren_gateway.following.encoded_events import EncodedEvents
from warren_gateway.following.followers import Followers

RUN = "run_1"
STREAM: Stream = run_events(RUN)


async def tell(broker: Broker, *numbers: int) -> None:
    """One message for each."""
    for number in numbers:
        await publish_events(broker, RUN, [event(RUN, step(number))])


async def offsets(messages: AsyncIterator[EncodedEvents], n: int) -> list[int]:
    async with asyncio.timeout(PATIENCE_S):
        return [(await anext(messages)).offset for _ in range(n)]


@pytest.mark.parametrize("kept_bytes", [1, 1000, 1_000_000])
@pytest.mark.parametrize("start", [0, 3, 19])
async def test_who_comes_late_gets_what_he_asked_for(
    broker: Broker, kept_bytes: int, start: int
) -> None:
    followers = Followers(broker, kept_bytes=kept_bytes)
    await tell(broker, *range(20))
    async with followers.follow(STREAM, 0) as first:
        assert await offsets(first, 20) == list(range(20))
        async with followers.follow(STREAM, start) as late:
            assert await offsets(late, 20 - start) == list(range(start, 20))
            assert followers.n_readers == 1
            await tell(broker, 20)
            assert await offsets(late, 1) == await offsets(first, 1) == [20]
    assert followers.n_readers == 0


async def test_who_asks_for_what_lies_before_the_others_gets_it(broker: Broker) -> None:
    followers = Followers(broker)
    await tell(broker, *range(5))
    async with followers.follow(STREAM, 5) as ahead, followers.follow(STREAM, 1) as behind:
        assert await offsets(behind, 4) == [1, 2, 3, 4]
        await tell(broker, 5)
        assert await offsets(ahead, 1) == await offsets(behind, 1) == [5]


async def test_who_is_slow_holds_up_nobody_and_misses_nothing(broker: Broker) -> None:
    followers = Followers(broker, kept_bytes=1)
    await tell(broker, *range(3))
    async with followers.follow(STREAM, 0) as slow, followers.follow(STREAM, 0) as quick:
        assert await offsets(slow, 1) == [0]
        assert await offsets(quick, 3) == [0, 1, 2]
        await tell(broker, *range(3, 30))
        assert await offsets(quick, 27) == list(range(3, 30))
        assert await offsets(slow, 29) == list(range(1, 30))


class QuietBroker:
    """Gives new readers nothing of what it keeps, like one that is frozen."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self.is_quiet = False

    def read(
        self, stream: Stream, *, start: StreamStart, prefetch: int, aside: bool
    ) -> AbstractAsyncContextManager[Consumer]:
        begin = "next" if self.is_quiet else start
        return self._broker.read(stream, start=begin, prefetch=prefetch, aside=aside)


async def test_what_is_kept_and_does_not_come_ends_it_and_is_not_skipped(broker: Broker) -> None:
    """So that the client goes on behind what it has got."""
    quiet = QuietBroker(broker)
    followers = Followers(cast("Broker", quiet), kept_bytes=1, answer_s=0.01)
    await tell(broker, *range(4))
    async with followers.follow(STREAM, 0) as quick:
        assert await offsets(quick, 4) == [0, 1, 2, 3]
        quiet.is_quiet = True
        async with followers.follow(STREAM, 0) as late:
            with pytest.raises(BrokerUnavailable):
                await anext(late)


async def test_a_stream_that_is_deleted_ends_it_and_the_next_reader_begins_anew(
    broker: Broker,
) -> None:
    followers = Followers(broker)
    await tell(broker, 0)
    async with followers.follow(STREAM, 0) as one:
        assert await offsets(one, 1) == [0]
        await broker.delete(STREAM)
        async with asyncio.timeout(PATIENCE_S):
            assert await anext(one, None) is None
        await tell(broker, 7)
        async with followers.follow(STREAM, 0) as other:
            assert await offsets(other, 1) == [0]


class BrokenBroker:
    @asynccontextmanager
    async def read(self, *_: object, **__: object) -> AsyncGenerator[None]:
        raise ValueError("a mistake of ours")
        yield


async def test_a_mistake_while_reading_is_told_and_nobody_waits_for_ever() -> None:
    followers = Followers(cast("Broker", BrokenBroker()))
    async with asyncio.timeout(PATIENCE_S):
        for _ in range(2):
            with pytest.raises(BrokerUnavailable, match="log says why"):
                async with followers.follow(STREAM, 0):
                    pass
