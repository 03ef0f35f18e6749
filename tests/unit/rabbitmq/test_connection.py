"""What becomes of a connection when the server says no, at a bad moment or without being asked."""

import asyncio
import logging
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from aio_pika.abc import AbstractChannel
from pamqp.commands import Channel, Connection, Queue
from tests.support.fake_rabbit import FakeRabbit, fake_rabbit
from tests.support.patience import PATIENCE_S
from yarl import URL

from warren_broker.rabbitmq.connection.connection import Link
from warren_broker.rabbitmq.connection.timings import Timings
from warren_broker.rabbitmq.entities.declare_calls import inspect

MORE_THAN_SOCKETS_HOLD = 16 * 1024 * 1024
N_ACKS = 100


@asynccontextmanager
async def linked(fake: FakeRabbit, timings: Timings | None = None) -> AsyncGenerator[Link]:
    link = Link(URL(fake.url), description="RabbitMQ", timings=timings)
    await link.start(timeout_s=PATIENCE_S)
    try:
        yield link
    finally:
        await link.close()


async def fill(channel: AbstractChannel) -> list["asyncio.Future[Any]"]:
    """Send more than a server takes that does not read, and then acks on top of it."""
    frames = await channel.get_underlay_channel()
    body = b"x" * MORE_THAN_SOCKETS_HOLD
    sending = [asyncio.ensure_future(frames.basic_publish(body, routing_key="q"))]
    await asyncio.sleep(0.05)  # the writer is at it; there is no event to wait for
    acks = [asyncio.ensure_future(frames.basic_ack(n, wait=False)) for n in range(N_ACKS)]
    await asyncio.sleep(0)
    return [*sending, *acks]


async def test_a_channel_that_the_server_closes_is_closed_on_both_sides_however_much_is_sent() -> (
    None
):
    """Or else the server takes the next channel of that number for a breach of the protocol."""
    async with fake_rabbit() as fake, linked(fake) as link:
        busy, looking = await link.open_channel(), await link.open_channel()
        look = asyncio.create_task(inspect(looking, "missing"))
        number, _ = await fake.until(lambda came: isinstance(came[1], Queue.Declare))
        fake.is_reading.clear()
        sending = await fill(busy)
        fake.say(number, Channel.Close(404, "NOT_FOUND - no queue 'missing'", 50, 10))
        assert await asyncio.wait_for(look, PATIENCE_S) is None
        fake.is_reading.set()
        await fake.until(lambda came: came[0] == number and isinstance(came[1], Channel.CloseOk))
        for task in sending:
            task.cancel()
        await asyncio.gather(*sending, return_exceptions=True)


async def test_a_look_that_is_given_up_as_its_answer_comes_costs_no_connection() -> None:
    async with fake_rabbit() as fake, linked(fake) as link:
        other = await (await link.open_channel()).get_underlay_channel()
        look = asyncio.create_task(link.call(lambda c: inspect(c, "missing"), only_looks=True))
        number, _ = await fake.until(lambda came: isinstance(came[1], Queue.Declare))
        fake.delay_s = 0.1
        fake.say(number, Channel.Close(404, "NOT_FOUND - no queue 'missing'", 50, 10))
        look.cancel()
        await asyncio.wait([look])
        await other.basic_qos(prefetch_count=1)  # by then the answer has come
        await link.close_channel(await link.open_channel())
        assert link.n_connections == 1


async def test_a_channel_that_is_long_in_closing_costs_no_connection() -> None:
    async with fake_rabbit() as fake, linked(fake, Timings(close_s=0.05)) as link:
        channel = await link.open_channel()
        fake.delay_s = 0.2
        await link.close_channel(channel)
        await link.close_channel(await link.open_channel())
        assert link.n_connections == 1


async def test_why_a_connection_was_lost_is_told(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING, "warren_broker")
    async with fake_rabbit() as fake, linked(fake) as link:
        fake.say(0, Connection.Close(504, "CHANNEL_ERROR - expected 'channel.open'", 60, 40))
        async with asyncio.timeout(PATIENCE_S):
            await link.reconnected(1)
    assert "CHANNEL_ERROR - expected 'channel.open'" in caplog.text
