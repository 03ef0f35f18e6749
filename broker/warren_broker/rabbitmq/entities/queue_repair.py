"""Finding the queues that the server lost half of (`broken_queues`), whoever made them.

Who is killed together with the server, while it made a queue, may never have told anybody the name; and
whoever comes next finds a queue and takes it for whole. So a visit to it is planned at the server before
the queue is. It waits in a retry queue and comes up in the queue `queue_repair` after `visit_s`; whoever
tidies takes it and looks at the queue.

Invariants:
- Every work queue and home that was made while the server took messages has a planned visit at the server until
  it was seen whole: what was made and has come to rest does not break. A visit is given up before that
  only when its queue was missing twice in a row: at the first visit it may still be in the making.
- A queue that was ever seen whole is not deleted, but for a home without a process, whose messages would
  have moved on. One that holds messages or has a consumer is not touched.
- One that gives no answer is deleted only if it gave none before and after the server has written down
  something else: a server that is slow or stopped costs nobody a queue.
- Whoever comes back to its home under the same name finds a whole one or none; a mute one goes with its
  visit, and what is for it goes to the fallback meanwhile.
- Nobody is kept from making a queue by a visit that can't be planned.
"""

import asyncio
import logging

from warren_broker.errors import BrokerError, BrokerUnavailable
from warren_broker.port import Consumer, Delivery
from warren_broker.rabbitmq.connection.connection import Link
from warren_broker.rabbitmq.entities.broken_queues import Condition, ask, remove
from warren_broker.rabbitmq.entities.declare_calls import look
from warren_broker.rabbitmq.entities.entities import REPAIR_VISITS, Entities
from warren_broker.rabbitmq.entities.republisher import MOVE_S, Republisher
from warren_broker.rabbitmq.publishing.messages import N_BEFORE, new_headers
from warren_broker.topology import Address, Home, WorkQueue

WRITE_S = 5.0
VISITED_AT_ONCE = 8
TORN_UP_AFTER = 2
"""Visits in a row that found no queue."""
VISIT_AGAIN_S = 5.0
"""When the server gave no answer."""

log = logging.getLogger(__name__)


class QueueRepair:
    def __init__(self, link: Link, republisher: Republisher, entities: Entities) -> None:
        self._link = link
        self._republisher = republisher
        self._entities = entities

    async def prepare(self, *addresses: Address) -> None:
        """To be called before these are declared."""
        homes = [address for address in addresses if isinstance(address, Home)]
        queues = [address for address in addresses if isinstance(address, WorkQueue)]
        queues += [home.fallback for home in homes]
        await asyncio.gather(
            *(self._prepare_queue(name) for name in {*map(self._entities.name, queues)}),
            *(self._prepare_home(name) for name in map(self._entities.name, homes)),
        )

    async def tidy(self, due: Consumer) -> None:
        """Visit the queues that are due."""
        async with asyncio.TaskGroup() as visits:
            async for visit in due:
                visits.create_task(self._visit(visit), name="visit a queue")

    async def _prepare_queue(self, queue: str) -> None:
        try:
            if await look(self._link, queue) is None:
                await self._write(queue, timeout_s=WRITE_S)
        except BrokerUnavailable as error:
            log.warning("no visit is planned for %s: %s", queue, error)

    async def _prepare_home(self, home: str) -> None:
        try:
            condition = await self._condition(home)
            if condition is Condition.GONE:
                await remove(self._link, home, condition)
            if condition in (Condition.GONE, Condition.MISSING):
                await self._write(home, timeout_s=WRITE_S)
        except BrokerUnavailable as error:
            log.warning("no visit is planned for %s: %s", home, error)

    async def _visit(self, visit: Delivery) -> None:
        try:
            await self._look_after(visit.body.decode(), n_visits=visit.n_deliveries)
        except ValueError as error:
            await visit.dead_letter(f"names no queue: {error}")
        except BrokerError as error:
            log.debug("%r could not be visited: %s", visit.body, error)
            await visit.nack(delay_s=VISIT_AGAIN_S)
        else:
            await visit.ack()

    async def _look_after(self, queue: str, *, n_visits: int) -> None:
        condition = await self._condition(queue)
        if condition is Condition.MUTE:
            await self._write(queue)
            condition = await self._condition(queue)
        elif condition is not Condition.WHOLE and n_visits < TORN_UP_AFTER:
            await self._write(queue, n_visits=n_visits)
        if condition in (Condition.GONE, Condition.MUTE):
            await remove(self._link, queue, condition)

    async def _write(self, queue: str, *, n_visits: int = 0, timeout_s: float = MOVE_S) -> None:
        await self._republisher.put(
            queue.encode(),
            queue=self._entities.name(REPAIR_VISITS),
            headers=new_headers(queue) | {N_BEFORE: n_visits},
            delay_s=self._link.timings.visit_s,
            timeout_s=timeout_s,
        )

    async def _condition(self, queue: str) -> Condition:
        found = await look(self._link, queue)
        if found is None:
            return Condition.MISSING
        is_used = found.consumer_count or found.message_count
        return Condition.WHOLE if is_used else await ask(self._link, queue)
