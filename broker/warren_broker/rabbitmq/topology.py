"""Declaring, deleting and measuring what is at the server.

Invariant: what this client has declared is declared again after every reconnect, before anybody
publishes on the new connection, until it is deleted through this client. A server that was killed
within a second of a declaration may have forgotten it (RabbitMQ 3.10), and one that lost its disk
has forgotten everything.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Iterable, Sequence

from aio_pika.abc import AbstractChannel, AbstractConnection
from aio_pika.exceptions import ChannelNotFoundEntity, ChannelPreconditionFailed
from pamqp.commands import Queue

from warren_broker.errors import BrokerError
from warren_broker.rabbitmq.connection import CALL_S, Link, close_channel
from warren_broker.rabbitmq.entities import Entities, Entity, ExchangeEntity, QueueEntity
from warren_broker.rabbitmq.failures import Lost, amqp
from warren_broker.topology import Address, Home, Topic, WorkQueue

DECLARE_S = 10.0

log = logging.getLogger(__name__)


class Topology:
    """What this client has declared."""

    def __init__(self, link: Link, entities: Entities) -> None:
        self._link = link
        self._entities = entities
        self._declared: dict[tuple[type[Entity], str], Entity] = {}

    async def declare(self, *addresses: Address) -> None:
        """Raises `BrokerError` for an entity that is there with other arguments."""
        await self.ensure(entity for address in addresses for entity in self._entities.of(address))

    async def ensure(self, entities: Iterable[Entity], *, timeout_s: float = CALL_S) -> None:
        """Declare entities, and keep them declared."""
        wanted = list(entities)

        async def run(channel: AbstractChannel) -> None:
            for entity in wanted:
                await declare(channel, entity)

        await self._link.call(run, timeout_s=timeout_s)
        self._declared.update({(type(entity), entity.name): entity for entity in wanted})

    async def ensure_once(self, entities: Sequence[Entity], *, timeout_s: float = CALL_S) -> None:
        """Declare entities unless this client already has."""
        if not all((type(entity), entity.name) in self._declared for entity in entities):
            await self.ensure(entities, timeout_s=timeout_s)

    async def delete(self, *addresses: Address) -> None:
        async def run(channel: AbstractChannel) -> None:
            for address in addresses:
                await self._delete(channel, address)

        for address in addresses:
            for kind in (QueueEntity, ExchangeEntity):
                self._declared.pop((kind, self._entities.name(address)), None)
        await self._link.call(run)

    async def measure(self, queue: WorkQueue | Home) -> Queue.DeclareOk | None:
        """Counts of waiting messages and of consumers; None when there is no such queue."""

        async def run(channel: AbstractChannel) -> Queue.DeclareOk | None:
            return await inspect(channel, self._entities.name(queue))

        return await self._link.call(run)

    async def restore(self, connection: AbstractConnection) -> None:
        """Declare everything again. An entity that fails does not hold up the others."""
        waiting = deque(self._declared.values())
        while waiting:
            await _restore_until_one_fails(connection, waiting)

    async def _delete(self, channel: AbstractChannel, address: Address) -> None:
        frames = await channel.get_underlay_channel()
        if isinstance(address, Topic):
            await frames.exchange_delete(self._entities.name(address))
        else:
            await frames.queue_delete(self._entities.name(address))


async def _restore_until_one_fails(connection: AbstractConnection, waiting: deque[Entity]) -> None:
    with amqp():
        async with asyncio.timeout(DECLARE_S):
            channel = await connection.channel(publisher_confirms=False)
    try:
        while waiting:
            await declare(channel, waiting.popleft())
    except (BrokerError, Lost) as error:
        log.warning("an entity could not be declared again: %s", error)
    finally:
        await close_channel(channel)


async def declare(channel: AbstractChannel, entity: Entity) -> None:
    """Create an entity, or see that it is there.

    Raises `Lost`, and `BrokerError` if it is there with other arguments.
    """
    try:
        with amqp():
            async with asyncio.timeout(DECLARE_S):
                await _declare(channel, entity)
    except ChannelPreconditionFailed as error:
        raise BrokerError(
            f"{entity.name} is already at the server with other arguments, perhaps from another"
            f" version; delete it there or use another prefix ({error})"
        ) from error


async def inspect(channel: AbstractChannel, queue_name: str) -> Queue.DeclareOk | None:
    """Ask the server itself: aio-pika would answer from memory. A missing queue ends the channel."""
    frames = await channel.get_underlay_channel()
    try:
        with amqp():
            return await frames.queue_declare(queue_name, passive=True)
    except ChannelNotFoundEntity:
        return None


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
