"""What this client has declared at the server: declared again after a reconnect, deleted, measured.

Invariants:
- What this client has declared is declared again after every reconnect until it is deleted through
  this client, or forgotten by it: a server that lost its disk has forgotten everything. What is being
  declared again is deleted after that, or it would come back and stay for ever. (Homes, and
  queues that expire, are declared again by their consumers alone.)
"""

import asyncio
import logging
from collections.abc import Iterable, Sequence

from aio_pika.abc import AbstractChannel
from pamqp.commands import Queue

from warren_broker.backoff import pauses
from warren_broker.errors import BrokerError
from warren_broker.rabbitmq.connection.connection import CALL_S, Link
from warren_broker.rabbitmq.connection.failures import Lost
from warren_broker.rabbitmq.entities.declare_calls import look
from warren_broker.rabbitmq.entities.durable_declaring import DurableDeclarer
from warren_broker.rabbitmq.entities.entities import Entities, Entity, ExchangeEntity, QueueEntity
from warren_broker.topology import Address, Home, Topic, WorkQueue

EXPIRES = "x-expires"
RESTORE_AT_ONCE = 8
RESTORE_PAUSE_S = 10.0

log = logging.getLogger(__name__)


class DeclaredEntities:
    """What this client has declared."""

    def __init__(self, link: Link, entities: Entities, declarer: DurableDeclarer) -> None:
        self._link = link
        self._entities = entities
        self._declarer = declarer
        self._declared: dict[tuple[type[Entity], str], Entity] = {}
        self._restoring: dict[tuple[type[Entity], str], asyncio.Future[None]] = {}

    async def declare(self, *addresses: Address) -> None:
        """Raises `BrokerError` for an entity that is there with other arguments."""
        await self.ensure(entity for address in addresses for entity in self._entities.of(address))

    async def ensure(self, entities: Iterable[Entity], *, timeout_s: float = CALL_S) -> None:
        """Declare entities, and keep those declared that are to stay."""
        wanted = list(entities)
        await self._declarer.declare_durably(self._link, wanted, timeout_s=timeout_s)
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
                await self._declarer.declare_one(channel, entity)
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
