"""Homes: a queue of one consumer whose messages move in with the fallback when it is gone."""

import asyncio

import pytest
from tests.support.brokers import PATIENCE_S, Place, assert_quiet, depth_is, take

from warren_broker.errors import Unroutable
from warren_broker.port import Broker
from warren_broker.topology import Home


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
    home = place.home(fallback, grace_s=1.0)
    async with crashing.consume(home, prefetch=2) as consumer:
        for i in range(4):
            await broker.publish(home, b"%d" % i, message_id=f"id-{i}")
        await take(consumer)
        await crashing.close()
    await broker.publish(home, b"4", message_id="id-4")
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
    await until_unroutable(broker, home)
    assert await broker.depth(home) is None


async def until_unroutable(broker: Broker, home: Home) -> None:
    async with asyncio.timeout(PATIENCE_S):
        with pytest.raises(Unroutable):
            while True:
                await broker.publish(home, b"x", message_id="x", timeout_s=PATIENCE_S)
                await asyncio.sleep(0.1)


async def test_a_consumer_that_returns_in_time_finds_its_messages(
    place: Place, broker: Broker
) -> None:
    fallback, crashing = place.queue(), await place.client("crashing")
    home = place.home(fallback, grace_s=20.0)
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
    await until_unroutable(broker, home)
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
    await until_unroutable(broker, home)
    letters = await broker.dead_letters(limit=10_000)
    (letter,) = [found for found in letters if found.origin == fallback.name]
    assert await broker.requeue_dead_letter(letter.id)
    async with broker.consume(fallback, prefetch=100) as consumer:
        while (delivery := await take(consumer)).body != b"bad":
            await delivery.ack()
        await delivery.ack()
