"""Declaring, deleting and measuring what is at the server.

Invariants:
- What this client has declared is declared again after every reconnect until it is deleted through
  this client, or forgotten by it: a server that lost its disk has forgotten everything. What is being
  declared again is deleted after that, or it would come back and stay for ever. (Homes, and
  queues that expire, are declared again by their consumers alone.)
- Declaring returns when what was new at the server is `settle_s` old: RabbitMQ 3.10, killed before it
  has written down the name of a queue or stream, forgets it with all that it confirmed for it.
- A queue whose making was cut short is made anew: RabbitMQ 3.10 makes a quorum queue first and tells
  it of its arguments then, and killed in between keeps one that never expires, nor its messages.
  What a server that lives was too slow for stays, so that the next attempt gets further.
- One that dead-letters is deleted only when it has had a leader for `CALM_S`: on RabbitMQ 3.10 it takes
  the dead-lettering of the whole node with it if it goes in the moment in which it gets one.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Sequence

from aio_pika.abc import AbstractChannel
from aio_pika.exceptions import ChannelNotFoundEntity, ChannelPreconditionFailed
from pamqp.commands import Queue

from warren_broker.backoff import pauses
from warren_broker.errors import BrokerError
from warren_broker.rabbitmq.connection.connection import CALL_S, Link
from warren_broker.rabbitmq.connection.failures import Lost, amqp
from warren_broker.rabbitmq.entities.broken_queues import Condition, ask
from warren_broker.rabbitmq.entities.entities import Entities, Entity, ExchangeEntity, QueueEntity
from warren_broker.topology import Address, Home, Topic, WorkQueue

DECLARE_S = 10.0
CALM_S = 2.0
DEAD_LETTERS = "x-dead-letter-exchange"
EXPIRES = "x-expires"
RESTORE_AT_ONCE = 8
RESTORE_PAUSE_S = 10.0

Declare = Callable[[AbstractChannel, Entity], Awaitable[None]]

log = logging.getLogger(__name__)


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


class Topology:
    """What this client has declared; `declare_one` is how it declares each."""

    def __init__(self, link: Link, entities: Entities, *, declare_one: Declare = declare) -> None:
        self._link = link
        self._entities = entities
        self._declare_one = declare_one
        self._declared: dict[tuple[type[Entity], str], Entity] = {}
        self._restoring: dict[tuple[type[Entity], str], asyncio.Future[None]] = {}

    async def declare(self, *addresses: Address) -> None:
        """Raises `BrokerError` for an entity that is there with other arguments."""
        await self.ensure(entity for address in addresses for entity in self._entities.of(address))

    async def ensure(self, entities: Iterable[Entity], *, timeout_s: float = CALL_S) -> None:
        """Declare entities, and keep those declared that are to stay."""
        wanted = list(entities)
        await settle_in(self._link, wanted, timeout_s=timeout_s, declare_one=self._declare_one)
        self._declared.update({_key(entity): entity for entity in wanted if _stays(entity)})

    async def ensure_once(self, entities: Sequence[Entity], *, timeout_s: float = CALL_S) -> None:
        """Declare entities unless this client already has."""
        if not all(_key(entity) in self._declared for entity in entities):
            await self.ensure(entities, timeout_s=timeout_s)

    async def delete(self, *addresses: Address) -> None:
        async def run(channel: AbstractChannel) -> None:
            if self._restoring:
                await asyncio.wait(list(self._restoring.values()))
            for address in addresses:
                await self._delete(channel, address)

        for address in addresses:
            self.stop_declaring(address)
        await self._link.call(run)

    def stop_declaring(self, address: Address) -> None:
        """Keep it declared no longer."""
        for kind in (QueueEntity, ExchangeEntity):
            self._declared.pop((kind, self._entities.name(address)), None)

    async def measure(self, queue: WorkQueue | Home) -> Queue.DeclareOk | None:
        """Counts of waiting messages and of consumers; None when there is no such queue."""

        return await look(self._link, self._entities.name(queue))

    async def keep(self) -> None:
        """Declare everything again after each reconnect; never returns."""
        n_connections = self._link.n_connections
        while True:
            n_connections = await self._link.reconnected(n_connections)
            await self._restore(n_connections)

    async def _restore(self, n_connections: int) -> None:
        failed = list(self._declared.values())
        for pause_s in pauses(longest_s=RESTORE_PAUSE_S):
            failed = await self._restore_some(failed)
            if not failed or self._link.n_connections != n_connections:
                return
            await asyncio.sleep(pause_s)

    async def _restore_some(self, entities: Sequence[Entity]) -> list[Entity]:
        """Declare each on a channel of its own, so that none holds up another; those that failed."""
        gate = asyncio.Semaphore(RESTORE_AT_ONCE)

        async def restore(entity: Entity) -> Entity | None:
            async with gate:
                return None if await self._is_restored(entity) else entity

        outcomes = await asyncio.gather(*(restore(entity) for entity in entities))
        return [entity for entity in outcomes if entity is not None]

    async def _is_restored(self, entity: Entity) -> bool:
        key = _key(entity)
        if key not in self._declared:
            return True
        done = self._restoring[key] = asyncio.get_running_loop().create_future()
        try:
            async with self._link.channel() as channel:
                await self._declare_one(channel, entity)
        except Lost as error:
            log.debug("%s could not be declared again yet: %s", entity.name, error)
            return False
        except BrokerError as error:
            log.error("%s", error)
        finally:
            del self._restoring[key]
            done.set_result(None)
        return True

    async def _delete(self, channel: AbstractChannel, address: Address) -> None:
        frames = await channel.get_underlay_channel()
        if isinstance(address, Topic):
            await frames.exchange_delete(self._entities.name(address))
        else:
            await frames.queue_delete(self._entities.name(address))


def _stays(entity: Entity) -> bool:
    """What expires is its consumers': kept declared by others, it would never be idle."""
    return EXPIRES not in entity.arguments


def _key(entity: Entity) -> tuple[type[Entity], str]:
    return type(entity), entity.name


async def settle_in(
    link: Link,
    entities: Sequence[Entity],
    *,
    timeout_s: float = CALL_S,
    declare_one: Declare = declare,
) -> None:
    """Declare entities; return when those that were new have the age of the link's `settle_s`.

    Raises `BrokerError` for one that is there with other arguments, and `BrokerUnavailable`.
    """
    begun, n_connections, settle_s = set[str](), link.n_connections, link.timings.settle_s

    async def run(channel: AbstractChannel) -> None:
        nonlocal n_connections
        if link.n_connections != n_connections:
            cut_short = [entity for entity in entities if entity.name in begun]
            await asyncio.gather(*(_clear_away(link, entity) for entity in cut_short))
            n_connections = link.n_connections
        begun.update(await _missing(link, entities) if settle_s > 0.0 else ())
        for entity in entities:
            await declare_one(channel, entity)
        if begun:
            await asyncio.sleep(settle_s)
            await declare_one(channel, entities[-1])  # the server is still the same one

    await link.call(run, timeout_s=timeout_s)


async def _missing(link: Link, entities: Sequence[Entity]) -> list[str]:
    """The queues and streams among them that are not at the server."""
    queues = [entity.name for entity in entities if isinstance(entity, QueueEntity)]
    return [name for name in queues if await look(link, name) is None]


async def look(link: Link, name: str) -> Queue.DeclareOk | None:
    """Counts of a queue's waiting messages and consumers; None when there is no such queue."""

    async def run(channel: AbstractChannel) -> Queue.DeclareOk | None:
        return await inspect(channel, name)

    return await link.call(run, only_looks=True)


async def _clear_away(link: Link, entity: Entity) -> None:
    """Delete a queue that was half made when the server was lost, unless it is of use already."""
    found = await look(link, entity.name)
    if found is None or found.message_count or found.consumer_count:
        return
    if DEAD_LETTERS in entity.arguments and await ask(link, entity.name) is Condition.WHOLE:
        await asyncio.sleep(CALM_S)
    async with link.channel() as channel:
        frames = await channel.get_underlay_channel()
        await frames.queue_delete(entity.name)


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
