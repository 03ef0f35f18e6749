"""Malformed messages: each lands in `dead` with its reason, or is passed over, and stops nobody."""

import logging

import pytest
from tests.support.brokers import PATIENCE_S, Place, letters_of
from tests.support.inboxes import claim_items, publish_items
from tests.support.items import generate, heartbeat, run_event, step

from warren_broker.inbox import follow, listen, receive
from warren_broker.port import Broker
from warren_schemas.codec.wire import decode, encode
from warren_schemas.control import Heartbeat
from warren_schemas.episode import Generate, Step
from warren_schemas.events import RunEvent

GARBAGE = [b"", b"garbage", b"WRN1", b"WRN1" + b"\xff" * 100]


def with_a_bad_item(items: list[Step], bad: int) -> bytes:
    """The message with one item whose turn is not a turn."""
    marked = [item.model_copy(update={"turn": 987654 + i}) for i, item in enumerate(items)]
    body = encode(marked)
    old = b"%d" % (987654 + bad)
    assert body.count(old) == 1
    return body.replace(old, b"-87654")


async def test_one_bad_item_goes_to_dead_and_the_good_ones_are_worked_on(
    place: Place, broker: Broker
) -> None:
    queue = place.queue()
    body = with_a_bad_item([step(f"ep_{i}") for i in range(5)], bad=2)
    await broker.declare(queue)
    await broker.publish(queue, body, message_id="mixed")
    async with receive(broker, queue, Step, prefetch=5) as inbox:
        claims = await claim_items(inbox, 4)
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
    await publish_items(broker, queue, step(turn=7))
    async with receive(broker, queue, Step, prefetch=1) as inbox:
        (good,) = await claim_items(inbox, 1)
        assert good.item.turn == 7
        good.done()
    await letters_of(broker, queue, 1)


async def test_a_wrong_kind_goes_to_dead(place: Place, broker: Broker) -> None:
    queue = place.queue()
    await publish_items(broker, queue, heartbeat())
    await publish_items(broker, queue, generate(turn=3))
    await publish_items(broker, queue, step(turn=7))
    async with receive(broker, queue, (Step, Generate), prefetch=1) as inbox:
        for turn in (3, 7):
            (good,) = await claim_items(inbox, 1)
            assert good.item.turn == turn
            good.done()
    (letter,) = await letters_of(broker, queue, 1)
    assert letter.reason == "wrong kind: expected step or generate, got heartbeat"


@pytest.mark.parametrize("body", GARBAGE)
async def test_garbage_in_a_queue_goes_to_dead(place: Place, broker: Broker, body: bytes) -> None:
    queue = place.queue()
    await broker.declare(queue)
    await broker.publish(queue, body, message_id="garbage")
    await publish_items(broker, queue, step(turn=7))
    async with receive(broker, queue, Step, prefetch=1) as inbox:
        (good,) = await claim_items(inbox, 1)
        good.done()
    (letter,) = await letters_of(broker, queue, 1)
    assert letter.body == body
    assert letter.reason.startswith("unreadable: ")


async def test_garbage_in_a_home_goes_to_dead(place: Place, broker: Broker) -> None:
    fallback = place.queue()
    home = place.home(fallback, grace_s=PATIENCE_S)
    async with receive(broker, home, Step, prefetch=1) as inbox:
        await broker.publish(home, b"garbage", message_id="garbage")
        await broker.publish(home, encode([step(turn=7)]), message_id="good")
        (await claim_items(inbox, 1))[0].done()
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
            claims = await claim_items(inbox, 2)
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
        (good,) = await claim_items(inbox, 1)
        assert good.item.worker == "env_7"
        good.done()


async def test_a_poisonous_item_that_is_republished_is_counted(
    place: Place, broker: Broker
) -> None:
    queue = place.queue()
    await publish_items(broker, queue, step(turn=7))
    async with receive(broker, queue, Step, prefetch=1) as inbox:
        for n_failures in (1, 2):
            (claim,) = await claim_items(inbox, 1)
            claim.dead_letter("poison")
            (letter,) = await letters_of(broker, queue, 1)
            assert (letter.reason, letter.n_failures) == ("poison", n_failures)
            assert await broker.requeue_dead_letter(letter.id)
        (await claim_items(inbox, 1))[0].done()
