"""Redelivery: what is not acked comes again, counted, later if asked to, and not for ever."""

import random
from collections import Counter

from tests.support.brokers import Place, assert_quiet, letters_of, publish_bodies, take

from warren_broker.port import Broker
from warren_broker.topology import DELIVERY_LIMIT


async def test_what_a_closed_client_held_goes_to_another(place: Place, broker: Broker) -> None:
    queue, crashing = place.queue(), await place.client("crashing")
    await broker.declare(queue)
    await publish_bodies(broker, queue, b"1")
    async with crashing.consume(queue, prefetch=1) as consumer:
        assert (await take(consumer)).n_deliveries == 1
        await crashing.close()
    async with broker.consume(queue, prefetch=1) as consumer:
        again = await take(consumer)
        assert (again.body, again.message_id, again.n_deliveries) == (b"1", "id-1", 2)
        await again.ack()


async def test_leaving_hands_back_what_is_not_settled(place: Place, broker: Broker) -> None:
    queue = place.queue()
    await broker.declare(queue)
    await publish_bodies(broker, queue, b"1", b"2", b"3")
    async with broker.consume(queue, prefetch=3) as consumer:
        await (await take(consumer)).ack()
        await take(consumer)
    async with broker.consume(queue, prefetch=3) as consumer:
        bodies = {(await take(consumer)).body, (await take(consumer)).body}
        assert bodies == {b"2", b"3"}
        await assert_quiet(consumer)


async def test_stop_ends_the_iteration_and_what_is_held_can_still_be_acked(
    place: Place, broker: Broker
) -> None:
    queue, other = place.queue(), await place.client("other")
    await broker.declare(queue)
    await publish_bodies(broker, queue, b"1", b"2")
    async with broker.consume(queue, prefetch=2) as consumer:
        held = await take(consumer)
        await consumer.stop()
        assert [d async for d in consumer] == []
        async with other.consume(queue, prefetch=2) as rest:
            assert (await take(rest)).body == b"2"
            await held.ack()
            await assert_quiet(rest)


async def test_settling_after_leaving_is_quiet_and_settles_nothing(
    place: Place, broker: Broker
) -> None:
    queue = place.queue()
    await broker.declare(queue)
    await publish_bodies(broker, queue, b"1")
    async with broker.consume(queue, prefetch=1) as consumer:
        late = await take(consumer)
    await late.ack()
    async with broker.consume(queue, prefetch=1) as consumer:
        assert (await take(consumer)).n_deliveries >= 2


async def test_acks_in_any_order_settle_what_they_name_and_nothing_else(
    place: Place, broker: Broker
) -> None:
    """Acks may travel together; what is nacked or still held in between must come again."""
    queue, draw = place.queue(), random.Random(1)
    await broker.declare(queue)
    bodies = [b"%d" % n for n in range(40)]
    await publish_bodies(broker, queue, *bodies)
    kept: set[bytes] = set()
    async with broker.consume(queue, prefetch=64) as consumer:
        held = [await take(consumer) for _ in bodies]
        draw.shuffle(held)
        for number, delivery in enumerate(held):
            if number % 4 == 0:
                kept.add(delivery.body)
            elif number % 4 == 1:
                await delivery.nack()
                await (await take(consumer)).ack()
            else:
                await delivery.ack()
    async with broker.consume(queue, prefetch=64) as consumer:
        assert {(await take(consumer)).body for _ in kept} == kept
        await assert_quiet(consumer)


async def test_nack_brings_the_message_back_counted(place: Place, broker: Broker) -> None:
    queue = place.queue()
    await broker.declare(queue)
    await publish_bodies(broker, queue, b"1")
    async with broker.consume(queue, prefetch=1) as consumer:
        for n_deliveries in range(1, 4):
            delivery = await take(consumer)
            assert delivery.n_deliveries == n_deliveries
            await delivery.nack()
        await (await take(consumer)).ack()


async def test_nack_with_delay_brings_it_back_and_counted(place: Place, broker: Broker) -> None:
    queue = place.queue()
    await broker.declare(queue)
    await publish_bodies(broker, queue, b"1")
    async with broker.consume(queue, prefetch=1) as consumer:
        await (await take(consumer)).nack(delay_s=0.6)
        again = await take(consumer)
        assert (again.body, again.message_id, again.n_deliveries) == (b"1", "id-1", 2)
        await again.ack()


async def test_a_delayed_message_does_not_hold_up_others(place: Place, broker: Broker) -> None:
    queue = place.queue()
    await broker.declare(queue)
    await publish_bodies(broker, queue, b"late")
    async with broker.consume(queue, prefetch=1) as consumer:
        await (await take(consumer)).nack(delay_s=3.0)
        await publish_bodies(broker, queue, b"early")
        for body in (b"early", b"late"):
            delivery = await take(consumer)
            assert delivery.body == body
            await delivery.ack()


async def test_a_poison_message_goes_to_dead_after_the_limit(place: Place, broker: Broker) -> None:
    queue = place.queue()
    await broker.declare(queue)
    await publish_bodies(broker, queue, b"poison", b"good")
    counts: Counter[bytes] = Counter()
    async with broker.consume(queue, prefetch=1) as consumer:
        while counts[b"poison"] < DELIVERY_LIMIT or not counts[b"good"]:
            delivery = await take(consumer)
            counts[delivery.body] += 1
            await (delivery.nack() if delivery.body == b"poison" else delivery.ack())
        await assert_quiet(consumer)
    assert counts == {b"poison": DELIVERY_LIMIT, b"good": 1}
    (letter,) = await letters_of(broker, queue, 1)
    assert letter.body == b"poison"
    assert str(DELIVERY_LIMIT) in letter.reason
