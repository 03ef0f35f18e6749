"""The inbox over every broker: items are settled one by one, messages when all of theirs are."""

import asyncio

import pytest
from tests.support.brokers import (
    PATIENCE_S,
    Place,
    depth_is,
    letters_of,
    take,
)
from tests.support.inboxes import assert_no_claims, claim_items, publish_items
from tests.support.items import generate, step

from warren_broker.inbox import receive
from warren_broker.port import Broker
from warren_schemas.codec.wire import decode
from warren_schemas.episode import Generate, Step


async def test_a_message_is_acked_when_its_last_item_is_done(place: Place, broker: Broker) -> None:
    queue = place.queue()
    await publish_items(broker, queue, step(turn=1), step(turn=2), step(turn=3))
    await publish_items(broker, queue, step(turn=4))
    async with receive(broker, queue, Step, prefetch=1) as inbox:
        claims = await claim_items(inbox, 3)
        assert [c.item.turn for c in claims] == [1, 2, 3]
        assert {(c.n_deliveries, c.offset) for c in claims} == {(1, None)}
        claims[2].done()
        claims[0].done()
        await assert_no_claims(inbox)
        claims[1].done()
        (last,) = await claim_items(inbox, 1)
        last.done()
    assert await broker.depth(queue) == 0


async def test_what_was_not_settled_comes_again(place: Place, broker: Broker) -> None:
    queue = place.queue()
    await publish_items(broker, queue, step(turn=1), step(turn=2))
    async with receive(broker, queue, Step, prefetch=1) as inbox:
        (await claim_items(inbox, 2))[0].done()
    async with receive(broker, queue, Step, prefetch=1) as inbox:
        claims = await claim_items(inbox, 2)
        assert [(c.item.turn, c.n_deliveries) for c in claims] == [(1, 2), (2, 2)]
        for each in claims:
            each.done()
    await depth_is(broker, queue, 0)


async def test_acks_are_safe_when_the_context_is_left_at_once(place: Place, broker: Broker) -> None:
    queue = place.queue()
    for i in range(1, 21):
        await publish_items(broker, queue, step(turn=i))
    async with receive(broker, queue, Step, prefetch=20) as inbox:
        for each in await claim_items(inbox, 20):
            each.done()
    async with receive(broker, queue, Step, prefetch=20) as inbox:
        await assert_no_claims(inbox)


async def test_a_settled_claim_can_not_be_settled_again(place: Place, broker: Broker) -> None:
    queue = place.queue()
    await publish_items(broker, queue, step(), step())
    async with receive(broker, queue, Step, prefetch=1) as inbox:
        first, second = await claim_items(inbox, 2)
        first.done()
        with pytest.raises(RuntimeError, match="settled already"):
            first.hand_back()
        second.done()


async def test_an_item_that_is_handed_back_comes_alone(place: Place, broker: Broker) -> None:
    queue = place.queue()
    await publish_items(broker, queue, step(turn=1), step(turn=2), step(turn=3))
    async with receive(broker, queue, Step, prefetch=5) as inbox:
        first, second, third = await claim_items(inbox, 3)
        first.done()
        second.hand_back()
        third.done()
        (again,) = await claim_items(inbox, 1)
        assert (again.item.turn, again.item.envelope) == (2, second.item.envelope)
        again.done()
        await assert_no_claims(inbox)
    assert await broker.depth(queue) == 0


async def test_an_item_is_handed_back_after_its_delay_and_holds_up_no_other(
    place: Place, broker: Broker
) -> None:
    queue = place.queue()
    await publish_items(broker, queue, step(turn=1))
    async with receive(broker, queue, Step, prefetch=5) as inbox:
        (await claim_items(inbox, 1))[0].hand_back(delay_s=2.0)
        await publish_items(broker, queue, step(turn=2))
        for turn in (2, 1):
            (claim,) = await claim_items(inbox, 1)
            assert claim.item.turn == turn
            claim.done()


async def test_leaving_does_not_wait_for_a_delay_and_loses_nothing(
    place: Place, broker: Broker
) -> None:
    queue = place.queue()
    await publish_items(broker, queue, step())
    async with asyncio.timeout(PATIENCE_S):
        async with receive(broker, queue, Step, prefetch=5) as inbox:
            (await claim_items(inbox, 1))[0].hand_back(delay_s=3600.0)
        async with receive(broker, queue, Step, prefetch=5) as inbox:
            (await claim_items(inbox, 1))[0].done()


async def test_an_item_that_is_given_up_goes_to_dead_alone(place: Place, broker: Broker) -> None:
    queue = place.queue()
    await publish_items(broker, queue, step(turn=1), step(turn=2))
    async with receive(broker, queue, Step, prefetch=5) as inbox:
        first, second = await claim_items(inbox, 2)
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
    await publish_items(broker, queue, *(step(turn=i) for i in range(1, 5)))
    async with (
        receive(broker, queue, Step, prefetch=1) as inbox,
        receive(broker, successors, Generate, prefetch=10) as answers,
    ):
        slow, *others = await claim_items(inbox, 4)
        for each in others:
            await publish_items(broker, successors, generate(turn=each.item.turn))
            each.done()
        got = await claim_items(answers, 3)
        assert [c.item.turn for c in got] == [2, 3, 4]
        slow.done()
        for each in got:
            each.done()


async def test_stop_ends_the_inbox_and_claims_can_still_be_settled(
    place: Place, broker: Broker
) -> None:
    queue = place.queue()
    await publish_items(broker, queue, step(turn=1), step(turn=2))
    async with receive(broker, queue, Step, prefetch=1) as inbox:
        first, second = await claim_items(inbox, 2)
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
    await publish_items(broker, queue, step(turn=1))
    with pytest.raises(ZeroDivisionError):
        async with receive(broker, queue, Step, prefetch=1) as inbox:
            await claim_items(inbox, 1)
            raise ZeroDivisionError
    async with receive(broker, queue, Step, prefetch=1) as inbox:
        (await claim_items(inbox, 1))[0].done()


async def test_a_hand_back_that_fails_brings_the_whole_message_again(place: Place) -> None:
    """The queue is full and the client closes: the item was not put anywhere else."""
    queue = place.queue(max_messages=1)
    broker, other = await place.client("closing"), await place.client("other")
    await publish_items(broker, queue, step(turn=1), step(turn=2))
    async with receive(broker, queue, Step, prefetch=1) as inbox:
        first, second = await claim_items(inbox, 2)
        await publish_items(other, queue, step(turn=3))
        first.done()
        second.hand_back()
        await broker.close()
    seen: set[int] = set()
    async with receive(other, queue, Step, prefetch=5) as inbox:
        while seen != {1, 2, 3}:
            for each in await asyncio.wait_for(anext(inbox), PATIENCE_S):
                seen.add(each.item.turn)
                each.done()
