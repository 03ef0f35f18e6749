"""The publisher over every broker: coalescing, order, and whose error it is."""

import asyncio

import pytest
from tests.support.brokers import PATIENCE_S, Place, take
from tests.support.items import generate, heartbeat, step

from warren_broker.batch_publisher import BatchPublisher
from warren_broker.errors import BrokerClosed, Unroutable
from warren_broker.port import Broker, Consumer
from warren_schemas.codec.frame import MAX_MESSAGE_BYTES, WireError
from warren_schemas.codec.wire import MAX_BATCH_BYTES, MAX_ITEMS, decode
from warren_schemas.envelope import Item
from warren_schemas.episode import Generate, Step


@pytest.fixture
def batch_publisher(broker: Broker) -> BatchPublisher:
    return BatchPublisher(broker)


async def take_items(consumer: Consumer, n: int) -> list[list[Item]]:
    """The messages that carry the next `n` items."""
    messages: list[list[Item]] = []
    while sum(map(len, messages)) < n:
        delivery = await take(consumer)
        messages.append(decode(delivery.body).items)
        await delivery.ack()
    assert sum(map(len, messages)) == n
    return messages


def turns(messages: list[list[Item]]) -> list[int]:
    return [item.turn for items in messages for item in items if isinstance(item, Step | Generate)]


async def test_a_lone_item_travels_alone_and_at_once(
    place: Place, broker: Broker, batch_publisher: BatchPublisher
) -> None:
    queue = place.queue()
    async with broker.consume(queue, prefetch=10) as consumer:
        await batch_publisher.send(queue, step())
        assert [len(m) for m in await take_items(consumer, 1)] == [1]


async def test_items_of_one_turn_travel_together_in_order(
    place: Place, broker: Broker, batch_publisher: BatchPublisher
) -> None:
    queue = place.queue()
    async with broker.consume(queue, prefetch=10) as consumer:
        await batch_publisher.send(queue, step())  # it has seen how large a step is
        await asyncio.gather(*(batch_publisher.send(queue, step(turn=i)) for i in range(1, 151)))
        messages = await take_items(consumer, 151)
    assert [len(m) for m in messages] == [1, MAX_ITEMS, MAX_ITEMS, 22]
    assert turns(messages) == [1, *range(1, 151)]


async def test_a_saturated_destination_gets_fuller_messages(place: Place, broker: Broker) -> None:
    """Each caller sends its next item when the last is confirmed, as workers do."""
    queue, batch_publisher = place.queue(), BatchPublisher(broker, max_in_flight=1)

    async def work(worker: int) -> None:
        for i in range(1, 11):
            await batch_publisher.send(queue, step(f"ep_{worker}", turn=i))

    async with broker.consume(queue, prefetch=1000) as consumer:
        await asyncio.gather(*(work(worker) for worker in range(50)))
        messages = await take_items(consumer, 500)
    assert len(messages) <= 40


async def test_messages_in_flight_are_bounded(place: Place, broker: Broker) -> None:
    """While the queue is full, nothing more than that leaves the batch publisher."""
    queue, batch_publisher = place.queue(max_messages=1), BatchPublisher(broker, max_in_flight=2)
    await broker.declare(queue)
    sending: list[asyncio.Task[None]] = []
    for i in range(1, 11):
        sending.append(asyncio.create_task(batch_publisher.send(queue, step(turn=i))))
        await asyncio.wait(sending, timeout=0.02)
    async with broker.consume(queue, prefetch=1) as consumer:
        messages = await take_items(consumer, 10)
        await asyncio.wait_for(asyncio.gather(*sending), PATIENCE_S)
    assert len(messages) < 10
    assert max(map(len, messages)) > 1


async def test_kinds_travel_apart_and_in_order(
    place: Place, broker: Broker, batch_publisher: BatchPublisher
) -> None:
    queue = place.queue()
    items = [step(turn=1), step(turn=2), generate(turn=3), step(turn=4), generate(turn=5)]
    async with broker.consume(queue, prefetch=10) as consumer:
        await batch_publisher.send(queue, *items)
        messages = await take_items(consumer, 5)
    assert [[type(item) for item in m] for m in messages] == [
        [Step, Step], [Generate], [Step], [Generate],
    ]  # fmt: skip
    assert turns(messages) == [1, 2, 3, 4, 5]


async def test_messages_stay_near_the_batch_size(
    place: Place, broker: Broker, batch_publisher: BatchPublisher
) -> None:
    queue, n_tokens = place.queue(), 4000
    async with broker.consume(queue, prefetch=100) as consumer:
        await batch_publisher.send_all(
            queue, [step(n_tokens=n_tokens, turn=i) for i in range(1, 41)]
        )
        seen = 0
        while seen < 40:
            delivery = await take(consumer)
            seen += len(decode(delivery.body).items)
            assert len(delivery.body) <= 2 * MAX_BATCH_BYTES
            await delivery.ack()


async def test_items_that_are_too_large_together_travel_apart(
    place: Place, broker: Broker, batch_publisher: BatchPublisher
) -> None:
    """Small ones taught it to put many into one message; then come large ones."""
    queue, text = place.queue(), "x" * (MAX_MESSAGE_BYTES // 8)
    async with broker.consume(queue, prefetch=200) as consumer:
        for _ in range(3):
            await batch_publisher.send_all(queue, [step(turn=1)] * MAX_ITEMS)
        await take_items(consumer, 3 * MAX_ITEMS)
        await batch_publisher.send_all(queue, [step(turn=i, text=text) for i in range(1, 17)])
        assert turns(await take_items(consumer, 16)) == list(range(1, 17))


async def test_an_item_too_large_for_any_message_fails_its_caller_only(
    place: Place, broker: Broker, batch_publisher: BatchPublisher
) -> None:
    queue = place.queue()
    too_large = step(text="x" * (MAX_MESSAGE_BYTES + 1))
    async with broker.consume(queue, prefetch=100) as consumer:
        outcomes = await asyncio.gather(
            *(batch_publisher.send(queue, step(turn=i)) for i in range(1, 6)),
            batch_publisher.send(queue, too_large),
            *(batch_publisher.send(queue, step(turn=i)) for i in range(6, 11)),
            return_exceptions=True,
        )
        assert turns(await take_items(consumer, 10)) == list(range(1, 11))
    assert [type(o) for o in outcomes] == [type(None)] * 5 + [WireError] + [type(None)] * 5


async def test_an_unroutable_address_fails_its_callers_only(
    place: Place, broker: Broker, batch_publisher: BatchPublisher
) -> None:
    good, nobody = place.queue("good"), place.queue("nobody")
    await broker.declare(good)
    outcomes = await asyncio.gather(
        batch_publisher.send(good, step()),
        batch_publisher.send(nobody, step()),
        batch_publisher.send(good, step()),
        batch_publisher.send(nobody, step()),
        return_exceptions=True,
    )
    assert [type(o) for o in outcomes] == [type(None), Unroutable, type(None), Unroutable]
    assert outcomes[1] is not outcomes[3]


async def test_a_cancelled_caller_harms_nobody(
    place: Place, broker: Broker, batch_publisher: BatchPublisher
) -> None:
    queue = place.queue()
    async with broker.consume(queue, prefetch=100) as consumer:
        callers = [
            asyncio.create_task(batch_publisher.send(queue, step(turn=i))) for i in range(1, 9)
        ]
        await asyncio.sleep(0)
        for caller in callers[::2]:
            caller.cancel()
        outcomes = await asyncio.gather(*callers, return_exceptions=True)
        confirm: set[int] = set()
        while not confirm >= {2, 4, 6, 8}:
            delivery = await take(consumer)
            confirm |= set(turns([decode(delivery.body).items]))
            await delivery.ack()
    assert [isinstance(o, asyncio.CancelledError) for o in outcomes] == [True, False] * 4


async def test_close_waits_for_what_is_under_way_and_takes_nothing_new(
    place: Place, broker: Broker, batch_publisher: BatchPublisher
) -> None:
    queue = place.queue()
    await broker.declare(queue)
    sending = [asyncio.create_task(batch_publisher.send(queue, step())) for _ in range(100)]
    await asyncio.sleep(0)
    await asyncio.wait_for(batch_publisher.close(), PATIENCE_S)
    await asyncio.sleep(0)
    assert all(task.done() and task.exception() is None for task in sending)
    with pytest.raises(BrokerClosed):
        await batch_publisher.send(queue, step())


async def test_a_closed_broker_fails_the_callers(place: Place) -> None:
    broker, queue = await place.client("closing"), place.queue(max_messages=1)
    await broker.declare(queue)
    batch_publisher = BatchPublisher(broker)

    async def flood() -> None:
        while True:
            await batch_publisher.send(queue, step())

    flooding = [asyncio.create_task(flood()) for _ in range(5)]
    await asyncio.wait(flooding, timeout=0.3)
    await broker.close()
    async with asyncio.timeout(PATIENCE_S):
        outcomes = await asyncio.gather(*flooding, return_exceptions=True)
        await batch_publisher.close()
    assert [type(outcome) for outcome in outcomes] == [BrokerClosed] * 5


async def test_streams_and_topics_take_items_too(
    place: Place, broker: Broker, batch_publisher: BatchPublisher
) -> None:
    stream, topic = place.stream(), place.topic()
    async with broker.read(stream, start="first") as reader, broker.subscribe(topic) as subscriber:
        await batch_publisher.send(stream, step(turn=1), step(turn=2))
        await batch_publisher.send(topic, heartbeat())
        assert turns(await take_items(reader, 2)) == [1, 2]
        await take_items(subscriber, 1)


async def test_nothing_to_send_is_sent_at_once(
    place: Place, batch_publisher: BatchPublisher
) -> None:
    await batch_publisher.send_all(place.queue("nobody"), [])
