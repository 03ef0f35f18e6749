"""Homes: a queue of one consumer whose messages move in with the fallback when it is gone."""

import pytest
from tests.support.brokers import (
    PATIENCE_S,
    Place,
    assert_quiet,
    depth_is,
    eventually,
    letters_of,
    take,
)

from warren_broker.errors import Unroutable
from warren_broker.port import Broker
from warren_broker.topology import DELIVERY_LIMIT, Home


async def test_a_home_delivers_to_its_consumer(place: Place, broker: Broker) -> None:
    home = place.home(place.queue())
    async with broker.consume(home, prefetch=5) as consumer:
        await broker.publish(home, b"1", message_id="1")
        delivery = await take(consumer)
        assert (delivery.body, delivery.n_deliveries) == (b"1", 1)
        await delivery.ack()


async def test_declaring_a_home_declares_its_fallback(place: Place, broker: Broker) -> None:
    fallback = place.queue()
    await broker.declare(place.home(fallback))
    assert await broker.depth(fallback) == 0


async def test_what_an_abandoned_home_held_falls_back(place: Place, broker: Broker) -> None:
    """Read and unacknowledged, unread, and published while nobody is there: all of it."""
    fallback, crashing = place.queue(), await place.client("crashing")
    home = place.home(fallback, grace_s=3.0)
    async with crashing.consume(home, prefetch=2) as consumer:
        for i in range(4):
            await broker.publish(home, b"%d" % i, message_id=f"id-{i}")
        await take(consumer)
        await crashing.close()
    try:
        await broker.publish(home, b"4", message_id="id-4")
    except Unroutable:  # a slow machine has forgotten it already, and every sender knows what to do
        await broker.publish(fallback, b"4", message_id="id-4")
    async with broker.consume(fallback, prefetch=10) as consumer:
        deliveries = [await take(consumer) for _ in range(5)]
        assert {d.body for d in deliveries} == {b"0", b"1", b"2", b"3", b"4"}
        assert {d.message_id for d in deliveries} == {f"id-{i}" for i in range(5)}
        for delivery in deliveries:
            await delivery.ack()


async def test_a_home_that_was_forgotten_is_unroutable(place: Place, broker: Broker) -> None:
    fallback = place.queue()
    home = place.home(fallback, grace_s=0.2)
    async with broker.consume(home, prefetch=1):
        await broker.publish(home, b"0", message_id="0")
    await until_forgotten(broker, home)
    with pytest.raises(Unroutable):
        await broker.publish(home, b"x", message_id="x", timeout_s=PATIENCE_S)


async def until_forgotten(broker: Broker, home: Home) -> None:
    async def is_gone() -> bool:
        return await broker.depth(home) is None

    await eventually(is_gone)


async def test_a_consumer_that_returns_in_time_finds_its_messages(
    place: Place, broker: Broker
) -> None:
    fallback, crashing = place.queue(), await place.client("crashing")
    home = place.home(fallback, grace_s=PATIENCE_S)
    async with crashing.consume(home, prefetch=1) as consumer:
        await broker.publish(home, b"1", message_id="1")
        await take(consumer)
        await crashing.close()
    async with broker.consume(home, prefetch=1) as consumer:
        delivery = await take(consumer)
        assert (delivery.body, delivery.n_deliveries) == (b"1", 2)
        await delivery.ack()
    await depth_is(broker, fallback, 0)


async def test_a_home_whose_consumer_lives_is_never_forgotten(place: Place, broker: Broker) -> None:
    home = place.home(place.queue(), grace_s=0.2)
    async with broker.consume(home, prefetch=1) as consumer:
        await assert_quiet(consumer)  # longer than the grace
        await broker.publish(home, b"1", message_id="1")
        await (await take(consumer)).ack()


async def test_a_home_can_be_opened_again(place: Place, broker: Broker) -> None:
    home = place.home(place.queue(), grace_s=0.2)
    async with broker.consume(home, prefetch=1):
        pass
    await until_forgotten(broker, home)
    async with broker.consume(home, prefetch=1) as consumer:
        await broker.publish(home, b"1", message_id="1")
        await (await take(consumer)).ack()


async def test_a_delayed_message_of_an_abandoned_home_falls_back(
    place: Place, broker: Broker
) -> None:
    fallback = place.queue()
    home = place.home(fallback, grace_s=0.2)
    async with broker.consume(home, prefetch=1) as consumer:
        await broker.publish(home, b"1", message_id="1")
        await (await take(consumer)).nack(delay_s=0.6)
    async with broker.consume(fallback, prefetch=1) as consumer:
        delivery = await take(consumer)
        assert delivery.body == b"1"
        await delivery.ack()


async def test_what_a_home_gave_up_can_be_worked_on_after_it_is_gone(
    place: Place, broker: Broker
) -> None:
    fallback = place.queue()
    home = place.home(fallback, grace_s=0.2)
    async with broker.consume(home, prefetch=1) as consumer:
        await broker.publish(home, b"bad", message_id=f"{place.prefix}-bad")
        await (await take(consumer)).dead_letter("no such turn")
    await until_forgotten(broker, home)
    (letter,) = await letters_of(broker, fallback, 1)
    assert await broker.requeue_dead_letter(letter.id)
    async with broker.consume(fallback, prefetch=1) as consumer:
        delivery = await take(consumer)
        assert delivery.body == b"bad"
        await delivery.ack()


async def test_a_poison_message_in_a_home_goes_to_dead(place: Place, broker: Broker) -> None:
    fallback = place.queue()
    home = place.home(fallback, grace_s=PATIENCE_S)
    async with broker.consume(home, prefetch=1) as consumer:
        await broker.publish(home, b"poison", message_id="poison")
        for n_deliveries in range(1, DELIVERY_LIMIT + 1):
            delivery = await take(consumer)
            assert delivery.n_deliveries == n_deliveries
            await delivery.nack()
        (letter,) = await letters_of(broker, fallback, 1)
    assert letter.body == b"poison"
