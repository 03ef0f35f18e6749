"""Every queue and stream has a channel to itself, so that one that is stuck holds no other up."""

import asyncio

from pamqp.body import ContentBody
from pamqp.commands import Channel
from tests.support.fake_rabbit import fake_rabbit
from yarl import URL

from warren_broker.rabbitmq.connection.connection import Link
from warren_broker.rabbitmq.publishing.messages import OutgoingMessage
from warren_broker.rabbitmq.publishing.publishers import MAX_CHANNELS, Publishers


def publishers() -> Publishers:
    return Publishers(Link(URL("amqp://nowhere"), description="nowhere"))


async def test_no_two_destinations_share_a_channel() -> None:
    all_of_them = publishers()
    one, other = all_of_them.to("one"), all_of_them.to("other")
    assert one is all_of_them.to("one")
    assert len({one, other, all_of_them.for_exchanges}) == 3


async def test_the_one_unused_for_longest_gives_its_channel_back() -> None:
    all_of_them = publishers()
    first, second = all_of_them.to("first"), all_of_them.to("second")
    assert all_of_them.to("first") is first
    for i in range(MAX_CHANNELS - 1):
        all_of_them.to(f"{i}")
    assert all_of_them.to("first") is first
    assert all_of_them.to("second") is not second
    await all_of_them.close()


async def test_one_at_work_keeps_its_channel() -> None:
    all_of_them = publishers()
    busy = all_of_them.to("busy")
    busy.n_under_way = 1
    for i in range(MAX_CHANNELS):
        all_of_them.to(f"{i}")
    assert all_of_them.to("busy") is busy
    await all_of_them.close()


async def test_what_was_under_way_as_a_publisher_retired_leaves_no_channel_behind() -> None:
    async with fake_rabbit() as fake:
        link = Link(URL(fake.url), description="RabbitMQ")
        await link.start(timeout_s=100.0)
        all_of_them = Publishers(link)
        deadline = asyncio.get_running_loop().time() + 30.0
        outgoing = OutgoingMessage("", "queue", b"body", {})
        fake.is_confirming = False
        publishing = asyncio.create_task(
            all_of_them.to("queue").publish(outgoing, deadline=deadline)
        )
        await fake.until(lambda came: isinstance(came[1], ContentBody))
        fake.is_confirming = True
        all_of_them.retire_publisher("queue")
        await publishing
        await fake.until(lambda _: [type(f) for _, f in fake.came].count(Channel.Close) == 2)
        assert fake.n_channels == 0
        await link.close()
