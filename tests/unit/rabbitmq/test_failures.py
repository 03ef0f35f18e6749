# pyright: reportUnknownMemberType=false
# (aiormq leaves parts of its interface untyped)
"""What an answer of the server means, and what a consumer that broke tells whoever waits for it."""

import asyncio
from functools import partial
from typing import cast

import pytest
from aio_pika.abc import AbstractChannel
from aio_pika.exceptions import ChannelPreconditionFailed
from aiormq.base import FutureStore
from tests.support.patience import PATIENCE_S

from warren_broker.errors import BrokerError
from warren_broker.rabbitmq.connection.connection import Link
from warren_broker.rabbitmq.connection.failures import Lost, amqp
from warren_broker.rabbitmq.consuming.ended import ended
from warren_broker.rabbitmq.consuming.stream_reader import StreamReader
from warren_broker.rabbitmq.entities.entities import QueueEntity

BOOTING = (
    "PRECONDITION_FAILED - queue 'a.log' in vhost '/' does not have a replica on the local node"
)


def test_a_stream_that_is_not_up_yet_is_tried_again() -> None:
    with pytest.raises(Lost, match="replica"), amqp():
        raise ChannelPreconditionFailed(BOOTING)
    with pytest.raises(ChannelPreconditionFailed), amqp():
        raise ChannelPreconditionFailed("inequivalent arg 'x-queue-type'")


async def test_what_waits_on_a_connection_that_is_closed_without_a_cause_is_tried_again() -> None:
    waiting = FutureStore(asyncio.get_running_loop())
    confirm: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    waiting.add(confirm)
    await waiting.reject_all(None)
    with pytest.raises(Lost), amqp():
        await confirm
    with pytest.raises(ZeroDivisionError), amqp():
        raise ZeroDivisionError


class Broken:
    """A link on which nothing works as anybody thought."""

    async def open_channel(self) -> AbstractChannel:
        raise ZeroDivisionError


async def test_whoever_waits_for_a_consumer_that_broke_is_told_at_once() -> None:
    reader = StreamReader(cast(Link, Broken()), QueueEntity("a.log", {}), "first", 1)
    task = asyncio.create_task(reader.subscription.run())
    task.add_done_callback(partial(ended, reader))
    async with asyncio.timeout(PATIENCE_S):
        with pytest.raises(BrokerError, match="broke: ZeroDivisionError"):
            await reader.subscription.attached()
