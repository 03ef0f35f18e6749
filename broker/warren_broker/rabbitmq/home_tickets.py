"""Finding the homes that the server lost half of (`broken_homes`), whoever made them.

A worker that is killed together with the server, while its home was being made, may never have told
anybody its name. So a ticket with the name is at the server before the home is. It waits in a retry
queue and comes up in the queue `homes` after `VISIT_S`; whoever tidies takes it and looks at the home.

Invariants:
- Every home that was made while the server took messages has a ticket at the server until it was seen
  whole: what was made and has come to rest does not break. A ticket is torn up before that only when
  its home was missing twice in a row: at the first visit it may still be in the making.
- A home that has a consumer is not touched; of the others only those that are broken are deleted.
- Whoever comes back to its home under the same name finds a whole one, or none.
- Nobody is kept from making a home by a ticket that can't be written.
"""

import asyncio
import logging

from warren_broker.errors import BrokerError, BrokerUnavailable
from warren_broker.port import Consumer, Delivery
from warren_broker.rabbitmq.broken_homes import lives
from warren_broker.rabbitmq.connection import Link
from warren_broker.rabbitmq.entities import HOME_VISIT_S, TICKETS, Entities
from warren_broker.rabbitmq.messages import N_BEFORE, new_headers
from warren_broker.rabbitmq.republisher import MOVE_S, Republisher
from warren_broker.rabbitmq.topology import look

VISIT_S = HOME_VISIT_S
WRITE_S = 5.0
VISITED_AT_ONCE = 8
TORN_UP_AFTER = 2
"""Visits in a row that found no home."""
VISIT_AGAIN_S = 5.0
"""When the server gave no answer."""

log = logging.getLogger(__name__)


class HomeTickets:
    def __init__(self, link: Link, republisher: Republisher, entities: Entities) -> None:
        self._link = link
        self._republisher = republisher
        self._entities = entities

    async def prepare(self, *homes: str) -> None:
        """To be called before these homes (their names at the server) are declared."""
        await asyncio.gather(*(self._prepare(home) for home in homes))

    async def tidy(self, tickets: Consumer) -> None:
        """Visit the homes of which tickets come up."""
        async with asyncio.TaskGroup() as visits:
            async for ticket in tickets:
                visits.create_task(self._visit(ticket), name="visit a home")

    async def _prepare(self, home: str) -> None:
        try:
            if not await self._is_whole(home):
                await self._write(home, n_missing=0, timeout_s=WRITE_S)
        except BrokerUnavailable as error:
            log.warning("no ticket for %s: %s", home, error)

    async def _visit(self, ticket: Delivery) -> None:
        try:
            home = ticket.body.decode()
            if not await self._is_whole(home) and ticket.n_deliveries < TORN_UP_AFTER:
                await self._write(home, n_missing=ticket.n_deliveries, timeout_s=MOVE_S)
        except ValueError as error:
            await ticket.dead_letter(f"names no home: {error}")
        except BrokerError as error:
            log.debug("%r could not be visited: %s", ticket.body, error)
            await ticket.nack(delay_s=VISIT_AGAIN_S)
        else:
            await ticket.ack()

    async def _write(self, home: str, *, n_missing: int, timeout_s: float) -> None:
        headers = new_headers(home) | {N_BEFORE: n_missing}
        await self._republisher.put(
            home.encode(),
            queue=self._entities.name(TICKETS),
            headers=headers,
            delay_s=VISIT_S,
            timeout_s=timeout_s,
        )

    async def _is_whole(self, home: str) -> bool:
        found = await look(self._link, home)
        if found is None:
            return False
        is_used = found.consumer_count or found.message_count
        return bool(is_used) or await lives(self._link, home)
