"""What a sampler sends, and the claims that it settles.

Invariants: a claim is settled only after what follows from it is confirmed, at its address or, when
that is a home that is gone, at the queue that it falls back to. An item that can't travel is given
up alone.
"""

import asyncio
import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from warren_broker.batch_publisher import BatchPublisher
from warren_broker.errors import BrokerError, Unroutable
from warren_broker.inbox import Claim
from warren_broker.port import Broker
from warren_broker.topology import Home, Stream, WorkQueue
from warren_schemas.codec.frame import WireError
from warren_schemas.envelope import Item
from warren_schemas.episode import Generate

_RETRY_DELAY_S = 1.0

Destination = Home | Stream | WorkQueue

log = logging.getLogger(__name__)


@dataclass(slots=True)
class _Batch:
    """Items for one destination, and the claims that they settle."""

    items: list[Item] = field(default_factory=list[Item])
    claims: list[Claim[Generate]] = field(default_factory=list[Claim[Generate]])


class Results:
    """`tasks` carries what is under way."""

    def __init__(self, broker: Broker, tasks: asyncio.TaskGroup) -> None:
        self.n_settled = 0
        """Claims whose item is confirmed."""
        self._broker = broker
        self._batch_publisher = BatchPublisher(broker)
        self._tasks = tasks

    def put(self, results: Iterable[tuple[Destination, Item, Claim[Generate]]]) -> None:
        """Pack by destination and send each batch in a task of its own."""
        batches: dict[Destination, _Batch] = {}
        for address, item, claim in results:
            batch = batches.setdefault(address, _Batch())
            batch.items.append(item)
            batch.claims.append(claim)
        for address, batch in batches.items():
            name = f"{len(batch.items)} items to {address.name}"
            self._tasks.create_task(self._deliver(address, batch), name=name)

    async def _deliver(self, address: Destination, batch: _Batch) -> None:
        try:
            await self._send(address, batch.items)
        except WireError as error:
            await self._deliver_singly(address, batch, error)
        except BrokerError as error:
            log.warning("%d turns go back to their queue: %s", len(batch.claims), error)
            for claim in batch.claims:
                claim.hand_back(delay_s=_RETRY_DELAY_S)
        else:
            self.n_settled += len(batch.claims)
            for claim in batch.claims:
                claim.done()

    async def _deliver_singly(self, address: Destination, batch: _Batch, error: WireError) -> None:
        """One item is unfit to travel: find it, and give it up alone."""
        if len(batch.items) == 1:
            batch.claims[0].dead_letter(f"its successor can't be sent: {error}")
            return
        for item, claim in zip(batch.items, batch.claims, strict=True):
            await self._deliver(address, _Batch([item], [claim]))

    async def _send(self, address: Destination, items: Sequence[Item]) -> None:
        try:
            await self._batch_publisher.send_all(address, items)
        except Unroutable:
            if isinstance(address, Stream):
                log.info("nobody keeps %s any more: %d failures dropped", address.name, len(items))
                return
            queue = address.fallback if isinstance(address, Home) else address
            await self._broker.declare(queue)
            await self._batch_publisher.send_all(queue, items)
