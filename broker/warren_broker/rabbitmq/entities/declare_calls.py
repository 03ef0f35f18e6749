"""Single declare and inspect calls to the server."""

import asyncio
from collections.abc import Awaitable, Callable

from aio_pika.abc import AbstractChannel
from aio_pika.exceptions import ChannelNotFoundEntity, ChannelPreconditionFailed
from pamqp.commands import Queue

from warren_broker.errors import BrokerError
from warren_broker.rabbitmq.connection.connection import Link
from warren_broker.rabbitmq.connection.failures import Lost, amqp
from warren_broker.rabbitmq.entities.entities import Entity, ExchangeEntity

DECLARE_S = 10.0

Declare = Callable[[AbstractChannel, Entity], Awaitable[None]]


async def declare(channel: AbstractChannel, entity: Entity) -> None:
    """Create an entity, or see that it is there.

    Raises `Lost` (also when an exchange to bind it to is not there yet), and `BrokerError` if it is
    there with other arguments.
    """
    try:
        with amqp():
            async with asyncio.timeout(DECLARE_S):
                await _declare(channel, entity)
    except ChannelNotFoundEntity as error:
        raise Lost(str(error)) from error
    except ChannelPreconditionFailed as error:
        raise BrokerError(
            f"{entity.name} is already at the server with other arguments, perhaps from another"
            f" version; delete it there or use another prefix ({error})"
        ) from error


async def look(link: Link, name: str) -> Queue.DeclareOk | None:
    """Counts of a queue's waiting messages and consumers; None when there is no such queue."""

    async def run(channel: AbstractChannel) -> Queue.DeclareOk | None:
        return await inspect(channel, name)

    return await link.call(run, only_looks=True)


async def inspect(channel: AbstractChannel, queue_name: str) -> Queue.DeclareOk | None:
    """Ask the server itself: aio-pika would answer from memory. A missing queue ends the channel.

    Who gives up waiting leaves the question under way: where the server has just ended the channel,
    aiormq, cut short, would forget to agree to that, and the channel's number would be of no use.
    """
    frames = await channel.get_underlay_channel()
    asking = asyncio.ensure_future(frames.queue_declare(queue_name, passive=True))
    asking.add_done_callback(_answered)
    try:
        with amqp():
            return await asyncio.shield(asking)
    except ChannelNotFoundEntity:
        return None


def _answered(asking: asyncio.Future[Queue.DeclareOk]) -> None:
    """Whoever asked may have gone."""
    if not asking.cancelled():
        asking.exception()


async def _declare(channel: AbstractChannel, entity: Entity) -> None:
    frames = await channel.get_underlay_channel()
    if isinstance(entity, ExchangeEntity):
        await frames.exchange_declare(
            entity.name, exchange_type=entity.kind, durable=True, arguments=dict(entity.arguments)
        )
        return
    await frames.queue_declare(
        entity.name,
        durable=not entity.is_exclusive,
        exclusive=entity.is_exclusive,
        auto_delete=entity.is_exclusive,
        arguments=dict(entity.arguments),
    )
    for exchange, routing_key in entity.bindings:
        await frames.queue_bind(entity.name, exchange, routing_key)
