"""The inbox over every broker: items are settled one by one, messages when all of theirs are."""

import asyncio
import logging
import time

import pytest
from tests.support.brokers import (
    PATIENCE_S,
    QUIET_S,
    Place,
    depth_is,
    letters_of,
    take,
)
from tests.support.items import generate, heartbeat, run_event, step

from warren_broker.inbox import Claim, Inbox, ItemT, follow, listen, receive
from warren_broker.port import Broker
from warren_broker.topology import WorkQueue
from warren_schemas.control import Heartbeat
from warren_schemas.envelope import Item
from warren_schemas.episode import Generate, Step
from warren_schemas.events import RunEvent
from warren_schemas.wire import decode, encode

GARBAGE = [b"", b"garbage", b"WRN1", b"WRN1" + b"\xff" * 100]


async def publish(broker: Broker, queue: WorkQueue, *items: Item) -> None:
    await broker.declare(queue)
    await broker.publish(queue, encode(items), message_id=items[0].envelope.id)


async def claim(inbox: Inbox[ItemT], n: int) -> list[Claim[ItemT]]:
    """The next `n` claims."""
    claims: list[Claim[ItemT]] = []
    async with asyncio.timeout(PATIENCE_S):
        while len(claims) < n:
            claims.extend(await anext(inbox))
    assert len(claims) == n
    return claims


async def assert_quiet(inbox: Inbox[Step]) -> None:
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(QUIET_S):
            await anext(inbox)


def with_a_bad_item(items: list[Step], bad: int) -> bytes:
    """The message with one item whose turn is not a turn."""
    marked = [item.model_copy(update={"turn": 987654 + i}) for i, item in enumerate(items)]
    body = encode(marked)
    old = b"%d" % (987654 + bad)
    assert body.count(old) == 1
    return body.replace(old, b"-87654")


async def test_a_message_is_acked_when_its_last_item_is_done(place: Place, broker: Broker) -> None:
    queue = place.queue()
    await publish(broker, queue, step(turn=1), step(turn=2), step(turn=3))
    await publish(broker, queue, step(turn=4))
    async with receive(broker, queue, Step, prefetch=1) as inbox:
        claims = await claim(inbox, 3)
        assert [c.item.turn for c in claims] == [1, 2, 3]
        assert {(c.n_deliveries, c.offset) for c in claims} == {(1, None)}
        claims[2].done()
        claims[0].done()
        await assert_quiet(inbox)
        claims[1].done()
        (last,) = await claim(inbox, 1)
        last.done()
    assert await broker.depth(queue) == 0


async def test_what_was_not_settled_comes_again(place: Place, broker: Broker) -> None:
    queue = place.queue()
    await publish(broker, queue, step(turn=1), step(turn=2))
    async with receive(broker, queue, Step, prefetch=1) as inbox:
        (await claim(inbox, 2))[0].done()
    async with receive(broker, queue, Step, prefetch=1) as inbox:
        claims = await claim(inbox, 2)
        assert [(c.item.turn, c.n_deliveries) for c in claims] == [(1, 2), (2, 2)]
        for each in claims:
            each.done()
    await depth_is(broker, queue, 0)


async def test_acks_are_safe_when_the_context_is_left_at_once(place: Place, broker: Broker) -> None:
    queue = place.queue()
    for i in range(1, 21):
        await publish(broker, queue, step(turn=i))
    async with receive(broker, queue, Step, prefetch=20) as inbox:
        for each in await claim(inbox, 20):
            each.done()
    async with receive(broker, queue, Step, prefetch=20) as inbox:
        await assert_quiet(inbox)


async def test_a_settled_claim_can_not_be_settled_again(place: Place, broker: Broker) -> None:
    queue = place.queue()
    await publish(broker, queue, step(), step())
    async with receive(broker, queue, Step, prefetch=1) as inbox:
        first, second = await claim(inbox, 2)
        first.done()
        with pytest.raises(RuntimeError, match="settled already"):
            first.hand_back()
        second.done()


async def test_an_item_that_is_handed_back_comes_alone(place: Place, broker: Broker) -> None:
    queue = place.queue()
    await publish(broker, queue, step(turn=1), step(turn=2), step(turn=3))
    async with receive(broker, queue, Step, prefetch=5) as inbox:
        first, second, third = await claim(inbox, 3)
        first.done()
        second.hand_back()
        third.done()
        (again,) = await claim(inbox, 1)
        assert (again.item.turn, again.item.envelope) == (2, second.item.envelope)
        again.done()
        await assert_quiet(inbox)
    assert await broker.depth(queue) == 0


async def test_an_item_is_handed_back_after_its_delay(place: Place, broker: Broker) -> None:
    queue = place.queue()
    await publish(broker, queue, step())
    async with receive(broker, queue, Step, prefetch=5) as inbox:
        started = time.monotonic()
        (await claim(inbox, 1))[0].hand_back(delay_s=0.5)
        (again,) = await claim(inbox, 1)
        assert time.monotonic() - started >= 0.45
        again.done()


async def test_leaving_does_not_wait_for_a_delay_and_loses_nothing(
    place: Place, broker: Broker
) -> None:
    queue = place.queue()
    await publish(broker, queue, step())
    async with asyncio.timeout(PATIENCE_S):
        async with receive(broker, queue, Step, prefetch=5) as inbox:
            (await claim(inbox, 1))[0].hand_back(delay_s=3600.0)
        async with receive(broker, queue, Step, prefetch=5) as inbox:
            (await claim(inbox, 1))[0].done()


async def test_an_item_that_is_given_up_goes_to_dead_alone(place: Place, broker: Broker) -> None:
    queue = place.queue()
    await publish(broker, queue, step(turn=1), step(turn=2))
    async with receive(broker, queue, Step, prefetch=5) as inbox:
        first, second = await claim(inbox, 2)
        first.dead_letter("the environment is not replayable")
        second.done()
        (letter,) = await letters_of(broker, queue, 1)
    assert letter.reason == "the environment is not replayable"
    (item,) = decode(letter.body).items
    assert isinstance(item, Step)
    assert item.turn == 1
    assert await broker.depth(queue) == 0


async def test_a_slow_item_does_not_hold_up_its_neighbours(place: Place, broker: Broker) -> None:
    """Their successors are sent and confirmed while it is still worked on."""
    queue, successors = place.queue(), place.queue("successors")
    await broker.declare(successors)
    await publish(broker, queue, *(step(turn=i) for i in range(1, 5)))
    async with (
        receive(broker, queue, Step, prefetch=1) as inbox,
        receive(broker, successors, Generate, prefetch=10) as answers,
    ):
        slow, *others = await claim(inbox, 4)
        for each in others:
            await publish(broker, successors, generate(turn=each.item.turn))
            each.done()
        got = await claim(answers, 3)
        assert [c.item.turn for c in got] == [2, 3, 4]
        slow.done()
        for each in got:
            each.done()


async def test_one_bad_item_goes_to_dead_and_the_good_ones_are_worked_on(
    place: Place, broker: Broker
) -> None:
    queue = place.queue()
    body = with_a_bad_item([step(f"ep_{i}") for i in range(5)], bad=2)
    await broker.declare(queue)
    await broker.publish(queue, body, message_id="mixed")
    async with receive(broker, queue, Step, prefetch=5) as inbox:
        claims = await claim(inbox, 4)
        assert [c.item.envelope.episode for c in claims] == ["ep_0", "ep_1", "ep_3", "ep_4"]
        for each in claims:
            each.done()
        (letter,) = await letters_of(broker, queue, 1)
    assert "turn" in letter.reason
    assert len(decode(letter.body).rejected) == 1
    assert await broker.depth(queue) == 0


async def test_a_message_of_only_bad_items_is_settled(place: Place, broker: Broker) -> None:
    queue = place.queue()
    await broker.declare(queue)
    await broker.publish(queue, with_a_bad_item([step()], bad=0), message_id="bad")
    await publish(broker, queue, step(turn=7))
    async with receive(broker, queue, Step, prefetch=1) as inbox:
        (good,) = await claim(inbox, 1)
        assert good.item.turn == 7
        good.done()
    await letters_of(broker, queue, 1)


async def test_a_wrong_kind_goes_to_dead(place: Place, broker: Broker) -> None:
    queue = place.queue()
    await publish(broker, queue, heartbeat())
    await publish(broker, queue, generate(turn=3))
    await publish(broker, queue, step(turn=7))
    async with receive(broker, queue, (Step, Generate), prefetch=1) as inbox:
        for turn in (3, 7):
            (good,) = await claim(inbox, 1)
            assert good.item.turn == turn
            good.done()
    (letter,) = await letters_of(broker, queue, 1)
    assert letter.reason == "wrong kind: expected step or generate, got heartbeat"


@pytest.mark.parametrize("body", GARBAGE)
async def test_garbage_in_a_queue_goes_to_dead(place: Place, broker: Broker, body: bytes) -> None:
    queue = place.queue()
    await broker.declare(queue)
    await broker.publish(queue, body, message_id="garbage")
    await publish(broker, queue, step(turn=7))
    async with receive(broker, queue, Step, prefetch=1) as inbox:
        (good,) = await claim(inbox, 1)
        good.done()
    (letter,) = await letters_of(broker, queue, 1)
    assert letter.body == body
    assert letter.reason.startswith("unreadable: ")


async def test_garbage_in_a_home_goes_to_dead(place: Place, broker: Broker) -> None:
    fallback = place.queue()
    home = place.home(fallback, grace_s=20.0)
    async with receive(broker, home, Step, prefetch=1) as inbox:
        await broker.publish(home, b"garbage", message_id="garbage")
        await broker.publish(home, encode([step(turn=7)]), message_id="good")
        (await claim(inbox, 1))[0].done()
    (letter,) = await letters_of(broker, fallback, 1)
    assert letter.body == b"garbage"


async def test_what_is_bad_in_a_stream_is_passed_over(
    place: Place, broker: Broker, caplog: pytest.LogCaptureFixture
) -> None:
    stream = place.stream()
    await broker.declare(stream)
    for body in (b"garbage", encode([heartbeat()]), encode([run_event("one"), run_event("two")])):
        await broker.publish(stream, body, message_id="any")
    with caplog.at_level(logging.WARNING, "warren_broker"):
        async with follow(broker, stream, RunEvent, start="first", prefetch=1) as inbox:
            claims = await claim(inbox, 2)
            assert [c.offset for c in claims] == [2, 2]
            with pytest.raises(TypeError, match="takes no item back"):
                claims[0].hand_back()
            claims[1].done()
    assert "at offset 0" in caplog.text
    assert "at offset 1" in caplog.text


async def test_what_is_bad_in_a_topic_is_passed_over(place: Place, broker: Broker) -> None:
    topic = place.topic()
    async with listen(broker, topic, Heartbeat) as inbox:
        for body in (b"garbage", encode([step()]), encode([heartbeat("env_7")])):
            await broker.publish(topic, body, message_id="any")
        (good,) = await claim(inbox, 1)
        assert good.item.worker == "env_7"
        good.done()


async def test_stop_ends_the_inbox_and_claims_can_still_be_settled(
    place: Place, broker: Broker
) -> None:
    queue = place.queue()
    await publish(broker, queue, step(turn=1), step(turn=2))
    async with receive(broker, queue, Step, prefetch=1) as inbox:
        first, second = await claim(inbox, 2)
        await inbox.stop()
        assert [claims async for claims in inbox] == []
        first.done()
        second.hand_back()
    async with broker.consume(queue, prefetch=5) as consumer:
        delivery = await take(consumer)
        assert len(decode(delivery.body).items) == 1
        await delivery.ack()


async def test_an_error_in_the_body_hands_everything_back(place: Place, broker: Broker) -> None:
    queue = place.queue()
    await publish(broker, queue, step(turn=1))
    with pytest.raises(ZeroDivisionError):
        async with receive(broker, queue, Step, prefetch=1) as inbox:
            await claim(inbox, 1)
            raise ZeroDivisionError
    async with receive(broker, queue, Step, prefetch=1) as inbox:
        (await claim(inbox, 1))[0].done()


async def test_a_hand_back_that_fails_brings_the_whole_message_again(place: Place) -> None:
    """The queue is full and the client closes: the item was not put anywhere else."""
    queue = place.queue(max_messages=1)
    broker, other = await place.client("closing"), await place.client("other")
    await publish(broker, queue, step(turn=1), step(turn=2))
    async with receive(broker, queue, Step, prefetch=1) as inbox:
        first, second = await claim(inbox, 2)
        await publish(other, queue, step(turn=3))
        first.done()
        second.hand_back()
        await broker.close()
    seen: set[int] = set()
    async with receive(other, queue, Step, prefetch=5) as inbox:
        while seen != {1, 2, 3}:
            for each in await asyncio.wait_for(anext(inbox), PATIENCE_S):
                seen.add(each.item.turn)
                each.done()
