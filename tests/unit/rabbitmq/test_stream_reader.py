"""A reader whose connection is lost while nobody takes what it got."""

import asyncio

from aiormq.abc import AbstractChannel as Frames
from aiormq.abc import DeliveredMessage
from pamqp.commands import Basic
from pamqp.header import ContentHeader
from tests.support.brokers import PATIENCE_S
from tests.support.fake_rabbit import fake_rabbit
from yarl import URL

from warren_broker.rabbitmq.connection.connection import Link
from warren_broker.rabbitmq.consuming.stream_reader import StreamReader
from warren_broker.rabbitmq.entities.entities import Entities
from warren_broker.rabbitmq.publishing.messages import OFFSET
from warren_broker.topology import Stream


def delivered(frames: Frames, offset: int) -> DeliveredMessage:
    return DeliveredMessage(
        delivery=Basic.Deliver(delivery_tag=offset + 1),
        header=ContentHeader(properties=Basic.Properties(headers={OFFSET: offset})),
        body=b"%d" % offset,
        channel=frames,
    )


async def test_what_lay_there_untaken_comes_again_once_and_in_order() -> None:
    """Or else each lost connection adds `prefetch` messages to what is held."""
    async with fake_rabbit() as fake:
        link = Link(URL(fake.url), description="RabbitMQ")
        await link.start(timeout_s=PATIENCE_S)
        frames = await (await link.open_channel()).get_underlay_channel()
        reader = StreamReader(link, Entities("").stream(Stream("log")), "first", prefetch=5)

        def come(offsets: range) -> None:
            for offset in offsets:
                reader.accept(frames, delivered(frames, offset))

        come(range(5))
        taken = [(await anext(reader)).body for _ in range(2)]
        reader.detached()
        assert reader.arguments == {OFFSET: 2}
        come(range(2, 7))
        async with asyncio.timeout(PATIENCE_S):
            taken += [(await anext(reader)).body for _ in range(5)]
        assert taken == [b"%d" % offset for offset in range(7)]
        await link.close()
