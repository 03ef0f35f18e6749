"""Dead letters: what was given up is visible with its reason, and can be tried again."""

import asyncio
import tracemalloc
from itertools import count

import pytest
from tests.support.brokers import Place, assert_quiet, letters_of, publish_bodies, take

from warren_broker.errors import BrokerUnavailable
from warren_broker.port import MAX_REASON_CHARS, Broker, DeadLetter
from warren_broker.topology import DEAD


async def test_a_dead_letter_says_where_from_and_why(place: Place, broker: Broker) -> None:
    queue = place.queue()
    async with broker.consume(queue, prefetch=1) as consumer:
        await broker.publish(queue, b"bad", message_id=f"{place.prefix}-bad")
        await (await take(consumer)).dead_letter("the header is not JSON — honestly")
        await assert_quiet(consumer)
    (letter,) = await letters_of(broker, queue, 1)
    assert letter.body == b"bad"
    assert letter.reason == "the header is not JSON — honestly"
    assert letter.first_seen_s > 1e9
    assert (await broker.depth(DEAD) or 0) >= 1


async def test_a_reason_of_any_length_is_told_as_far_as_it_can_be(
    place: Place, broker: Broker
) -> None:
    """Such as one that names a key of as many characters as a message has."""
    queue, reason = place.queue(), "unknown key: " + "k" * 1_000_000
    async with broker.consume(queue, prefetch=1) as consumer:
        await broker.publish(queue, b"bad", message_id=f"{place.prefix}-bad")
        await (await take(consumer)).dead_letter(reason)
        await broker.dead_letter(b"too", origin=queue, reason=reason, message_id=place.prefix)
    letters = await letters_of(broker, queue, 2)
    assert [letter.reason for letter in letters] == [reason[:MAX_REASON_CHARS]] * 2


async def test_looking_at_large_letters_holds_one_body_at_a_time(
    place: Place, broker: Broker
) -> None:
    n, size_bytes = 12, 2_000_000
    queue = place.queue()
    await broker.declare(queue)
    for i in range(n):
        name = f"{place.prefix}-{i}"
        body = bytes([i]) * size_bytes
        await broker.dead_letter(body, origin=queue, reason="large", message_id=name)

    def look(letter: DeadLetter) -> tuple[int, int] | None:
        return (letter.body[0], len(letter.body)) if letter.origin == queue.name else None

    tracemalloc.start()
    seen = await broker.look_at_dead_letters(look, limit=10_000, max_bytes=10**9)
    peak_bytes = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert sorted(seen) == [(i, size_bytes) for i in range(n)]
    assert peak_bytes < n * size_bytes / 2
    few = await broker.look_at_dead_letters(
        lambda letter: letter.id, limit=10_000, max_bytes=2 * size_bytes
    )
    assert len(few) < n
    assert len(await letters_of(broker, queue, n)) == n
    for i in range(n):
        await broker.drop_dead_letter(f"{place.prefix}-{i}")


async def test_looking_at_dead_letters_takes_none(place: Place, broker: Broker) -> None:
    queue = place.queue()
    await broker.declare(queue)
    for i in range(3):
        await broker.dead_letter(
            b"%d" % i, origin=queue, reason=f"reason {i}", message_id=f"{place.prefix}-{i}"
        )
    for _ in range(3):
        letters = await letters_of(broker, queue, 3)
        assert [letter.body for letter in letters] == [b"0", b"1", b"2"]
        assert [letter.reason for letter in letters] == ["reason 0", "reason 1", "reason 2"]
    assert len(await broker.dead_letters(limit=2)) == 2


async def test_a_dead_letter_can_be_tried_again(place: Place, broker: Broker) -> None:
    queue = place.queue()
    await broker.declare(queue)
    for i in range(3):
        await broker.dead_letter(
            b"%d" % i, origin=queue, reason="no", message_id=f"{place.prefix}-{i}"
        )
    _, middle, _ = await letters_of(broker, queue, 3)
    assert await broker.requeue_dead_letter(middle.id)
    async with broker.consume(queue, prefetch=1) as consumer:
        delivery = await take(consumer)
        assert (delivery.body, delivery.n_deliveries) == (b"1", 1)
        await delivery.ack()
    assert [letter.body for letter in await letters_of(broker, queue, 2)] == [b"0", b"2"]
    assert not await broker.requeue_dead_letter(middle.id)


async def test_a_letter_whose_queue_is_full_stays(place: Place, broker: Broker) -> None:
    queue = place.queue(max_messages=1)
    await broker.declare(queue)
    await broker.dead_letter(b"bad", origin=queue, reason="no", message_id=f"{place.prefix}-bad")
    (letter,) = await letters_of(broker, queue, 1)
    with pytest.raises(BrokerUnavailable):
        for i in count():
            await broker.publish(queue, b"fill", message_id=f"{place.prefix}-{i}", timeout_s=1.0)

    with pytest.raises(BrokerUnavailable, match="the queue is full"):
        await broker.requeue_dead_letter(letter.id)

    assert await letters_of(broker, queue, 1) == [letter]


async def test_a_letter_that_is_not_there_can_not_be_tried_again(broker: Broker) -> None:
    assert not await broker.requeue_dead_letter("msg_of_nobody")


async def test_a_letter_that_fails_again_comes_back_and_is_counted(
    place: Place, broker: Broker
) -> None:
    queue = place.queue()
    await broker.declare(queue)
    await publish_bodies(broker, queue, b"bad")
    async with broker.consume(queue, prefetch=1) as consumer:
        for n_failures in (1, 2, 3):
            await (await take(consumer)).dead_letter(f"failure {n_failures}")
            (letter,) = await letters_of(broker, queue, 1)
            assert (letter.n_failures, letter.reason) == (n_failures, f"failure {n_failures}")
            assert letter.id == "id-bad"
            await assert_quiet(consumer)
            assert await broker.requeue_dead_letter(letter.id)


async def test_a_dead_letter_can_be_dropped(place: Place, broker: Broker) -> None:
    queue = place.queue()
    await broker.declare(queue)
    for i in range(3):
        await broker.dead_letter(
            b"%d" % i, origin=queue, reason="no", message_id=f"{place.prefix}-{i}"
        )
    assert await broker.drop_dead_letter(f"{place.prefix}-1")
    assert [letter.body for letter in await letters_of(broker, queue, 2)] == [b"0", b"2"]
    assert not await broker.drop_dead_letter(f"{place.prefix}-1")


async def test_many_are_dropped_in_one_pass(place: Place, broker: Broker) -> None:
    queue = place.queue()
    await broker.declare(queue)
    names = [f"{place.prefix}-{i}" for i in range(5)]
    for name in names:
        await broker.dead_letter(b"bad", origin=queue, reason="bad", message_id=name)
    assert await broker.drop_dead_letters({names[0], names[3], "never-there"}) == 2
    left = await letters_of(broker, queue, 3)
    assert sorted(letter.id for letter in left) == [names[1], names[2], names[4]]


async def test_thousands_are_looked_at_sent_home_and_dropped(place: Place, broker: Broker) -> None:
    """Asked for one by one they got no answer within the half minute that a call may take."""
    n, size_bytes = 5_000, 1_000
    queue = place.queue()
    await broker.declare(queue)
    names = [f"{place.prefix}-{i:04}" for i in range(n)]

    async def give_up(name: str) -> None:
        body = name.encode().ljust(size_bytes)
        await broker.dead_letter(body, origin=queue, reason="bad", message_id=name)

    for start in range(0, n, 200):
        await asyncio.gather(*map(give_up, names[start : start + 200]))

    def look(letter: DeadLetter) -> str | None:
        return letter.id if letter.origin == queue.name else None

    seen = await broker.look_at_dead_letters(look, limit=10_000, max_bytes=10**9)
    assert sorted(seen) == names
    assert await broker.requeue_dead_letter(names[-1])
    assert await broker.depth(queue) == 1
    assert await broker.drop_dead_letters(set(names)) == n - 1
    assert await broker.look_at_dead_letters(look, limit=10_000, max_bytes=10**9) == []
