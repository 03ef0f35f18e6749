"""Successors over every broker: a claim ends as its successor does, and no claim stays open."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import cast

import pytest
from tests.support.brokers import (
    PATIENCE_S,
    QUIET_S,
    Place,
    depth_is,
    eventually,
    letters_of,
    take,
)
from tests.support.inboxes import claim_items, publish_items
from tests.support.items import generate, step

from warren_broker.inbox import Claim, Inbox, receive
from warren_broker.port import Broker
from warren_broker.successors import Destination, SuccessorPublisher, open_successor_publisher
from warren_broker.topology import WorkQueue
from warren_schemas.codec.frame import MAX_MESSAGE_BYTES
from warren_schemas.codec.wire import decode
from warren_schemas.envelope import Item
from warren_schemas.episode import Generate, Step

TOO_LARGE = "x" * (MAX_MESSAGE_BYTES + 1)
NO_UNICODE = "\ud800"


@pytest.fixture
async def publisher(broker: Broker) -> AsyncGenerator[SuccessorPublisher]:
    async with open_successor_publisher(broker) as publisher:
        yield publisher


@dataclass(frozen=True)
class Claimed:
    """Claims on the items of one message."""

    broker: Broker
    source: WorkQueue
    inbox: Inbox[Generate]
    claims: list[Claim[Generate]]

    async def until_done(self) -> None:
        """With one message in hand, the next one comes when all claims are settled."""
        await publish_items(self.broker, self.source, generate(turn=99))
        (last,) = await claim_items(self.inbox, 1)
        assert last.item.turn == 99, "the claims were handed back"
        last.done()


@asynccontextmanager
async def claimed(broker: Broker, source: WorkQueue, n: int = 3) -> AsyncGenerator[Claimed]:
    """Turns 1 to `n`."""
    await publish_items(broker, source, *(generate(turn=turn) for turn in range(1, n + 1)))
    async with receive(broker, source, Generate, prefetch=1) as inbox:
        yield Claimed(broker, source, inbox, await claim_items(inbox, n))


async def arrived(broker: Broker, queue: WorkQueue, n: int) -> list[int]:
    """The turns of the next `n` steps in this queue, which is there already."""
    async with receive(broker, queue, Step, prefetch=10) as inbox:
        return await _done(inbox, n)


def put_all(
    publisher: SuccessorPublisher, address: Destination, claims: list[Claim[Generate]]
) -> None:
    for claim in claims:
        publisher.put(address, step(turn=claim.item.turn), [claim])


async def test_claims_are_done_when_their_successors_are_confirmed(
    place: Place, broker: Broker, publisher: SuccessorPublisher
) -> None:
    source, queue = place.queue("source"), place.queue("next")
    await broker.declare(queue)
    async with claimed(broker, source) as work:
        put_all(publisher, queue, work.claims)
        assert await arrived(broker, queue, 3) == [1, 2, 3]
        await work.until_done()


async def test_no_claim_is_done_before_its_successor_is_confirmed(
    place: Place, broker: Broker
) -> None:
    source, full = place.queue("source"), place.queue("full", max_messages=1)
    await broker.declare(full)
    flood = [asyncio.create_task(publish_items(broker, full, step())) for _ in range(8)]
    await asyncio.wait(flood, timeout=QUIET_S)
    assert not all(task.done() for task in flood)
    async with claimed(broker, source) as work, open_successor_publisher(broker) as publisher:
        publisher.put(full, step(), work.claims)
    await depth_is(broker, source, 1)
    for task in flood:
        task.cancel()
    await asyncio.wait(flood)


async def test_what_comes_in_one_turn_of_the_loop_travels_together(
    place: Place, broker: Broker, publisher: SuccessorPublisher
) -> None:
    source, queue = place.queue("source"), place.queue("next")
    async with claimed(broker, source, 5) as work, broker.consume(queue, prefetch=9) as consumer:
        put_all(publisher, queue, work.claims[:1])  # the publisher has seen how large a step is
        await take(consumer)
        put_all(publisher, queue, work.claims[1:])
        assert len(decode((await take(consumer)).body).items) == 4


async def test_one_successor_may_settle_many_claims_or_none(
    place: Place, broker: Broker, publisher: SuccessorPublisher
) -> None:
    source, queue = place.queue("source"), place.queue("next")
    await broker.declare(queue)
    async with claimed(broker, source) as work:
        publisher.put(queue, step(turn=7), work.claims)
        publisher.put(queue, step(turn=8), [])
        assert await arrived(broker, queue, 2) == [7, 8]
        await work.until_done()


class Breaking:
    """A broker with a fault of its own in what it publishes."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker

    async def publish(self, *args: object, **options: object) -> None:
        raise ZeroDivisionError

    def __getattr__(self, name: str) -> object:
        return getattr(self._broker, name)


async def test_claims_are_handed_back_where_publishing_breaks(
    place: Place, broker: Broker, caplog: pytest.LogCaptureFixture
) -> None:
    source, queue = place.queue("source"), place.queue("next")
    breaking = cast(Broker, Breaking(broker))
    async with claimed(broker, source) as work, open_successor_publisher(breaking) as publisher:
        put_all(publisher, queue, work.claims)
        assert await _done(work.inbox, 3) == [1, 2, 3]
    assert "3 items for" in caplog.text


@pytest.mark.parametrize("text", [TOO_LARGE, NO_UNICODE], ids=["too large", "no Unicode"])
async def test_a_successor_that_can_not_be_encoded_is_given_up_alone(
    place: Place, broker: Broker, publisher: SuccessorPublisher, text: str
) -> None:
    source, queue = place.queue("source"), place.queue("next")
    await broker.declare(queue)
    async with claimed(broker, source) as work:
        put_all(publisher, queue, work.claims[:1])
        publisher.put(queue, step(turn=2, text=text), work.claims[1:2])
        put_all(publisher, queue, work.claims[2:])
        (letter,) = await letters_of(broker, source, 1)
        assert await arrived(broker, queue, 2) == [1, 3]
        await work.until_done()
    assert "its successor can't be encoded" in letter.reason
    (given_up,) = decode(letter.body).items
    assert isinstance(given_up, Generate)
    assert given_up.turn == 2


async def test_what_was_for_a_home_that_is_gone_goes_where_it_falls_back_to(
    place: Place, broker: Broker, publisher: SuccessorPublisher
) -> None:
    source, shared = place.queue("source"), place.queue("shared")
    gone = place.home(shared)
    async with claimed(broker, source) as work:
        put_all(publisher, gone, work.claims)
        await _until_there(broker, shared)
        assert await arrived(broker, shared, 3) == [1, 2, 3]
        await work.until_done()


async def test_a_queue_that_is_not_there_is_made_also_when_it_was_deleted(
    place: Place, broker: Broker, publisher: SuccessorPublisher
) -> None:
    source, queue = place.queue("source"), place.queue("next")
    async with claimed(broker, source) as work:
        put_all(publisher, queue, work.claims[:1])
        await _until_there(broker, queue)
        assert await arrived(broker, queue, 1) == [1]
        await broker.delete(queue)
        put_all(publisher, queue, work.claims[1:])
        await _until_there(broker, queue)
        assert await arrived(broker, queue, 2) == [2, 3]
        await work.until_done()


async def test_what_was_for_a_stream_that_is_gone_is_dropped_and_nothing_goes_to_dead(
    place: Place, broker: Broker, publisher: SuccessorPublisher
) -> None:
    source, gone, queue = place.queue("source"), place.stream("gone"), place.queue("next")
    await broker.declare(queue)
    async with claimed(broker, source) as work:
        put_all(publisher, gone, work.claims[:2])
        put_all(publisher, queue, work.claims[2:])
        assert await arrived(broker, queue, 1) == [3]
        await work.until_done()
    assert not [each for each in await broker.dead_letters() if each.origin == source.name]


async def test_a_stream_takes_successors_too(
    place: Place, broker: Broker, publisher: SuccessorPublisher
) -> None:
    source, stream = place.queue("source"), place.stream()
    async with broker.read(stream, start="first") as reader, claimed(broker, source) as work:
        put_all(publisher, stream, work.claims)
        items: list[Item] = []
        while len(items) < 3:
            items += decode((await take(reader)).body).items
        await work.until_done()


async def test_claims_whose_successors_are_not_confirmed_come_again(
    place: Place, broker: Broker
) -> None:
    """The publisher's broker is closed, the one of the claims is not."""
    source, queue = place.queue("source"), place.queue("next")
    lost = await place.client("lost")
    await broker.declare(queue)
    await publish_items(broker, source, *(generate(turn=turn) for turn in (1, 2, 3)))
    async with (
        receive(broker, source, Generate, prefetch=10) as inbox,
        open_successor_publisher(lost) as publisher,
    ):
        claims = await claim_items(inbox, 3)
        await lost.close()
        put_all(publisher, queue, claims)
        assert await _done(inbox, 3) == [1, 2, 3]


async def test_what_is_put_last_is_confirmed_before_the_publisher_is_closed(
    place: Place, broker: Broker
) -> None:
    source, queue = place.queue("source"), place.queue("next")
    await broker.declare(queue)
    async with claimed(broker, source) as work:
        async with open_successor_publisher(broker) as publisher:
            put_all(publisher, queue, work.claims)
        publisher.put(queue, step(turn=4), [])  # closed: nothing becomes of it
        await work.until_done()
    assert await arrived(broker, queue, 3) == [1, 2, 3]
    await depth_is(broker, queue, 0)


async def _done(inbox: Inbox[Step] | Inbox[Generate], n: int) -> list[int]:
    """The turns of the next `n` items, done one by one: in how many messages they come is open."""
    turns: list[int] = []
    async with asyncio.timeout(PATIENCE_S):
        while len(turns) < n:
            for claim in await anext(inbox):
                turns.append(claim.item.turn)
                claim.done()
    assert len(turns) == n
    return sorted(turns)


async def _until_there(broker: Broker, queue: WorkQueue) -> None:
    async def is_there() -> bool:
        return await broker.depth(queue) is not None

    async with asyncio.timeout(PATIENCE_S):
        await eventually(is_there)
