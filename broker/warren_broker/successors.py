"""Successors: what follows from claims is published, and then the claims are settled.

Invariants:
- Every claim is settled once: done, after its successor is confirmed and never before; handed back,
  where the broker did not confirm in time or publishing broke (the successor may have arrived all the
  same, so its duplicate may come); dead-lettered, where its successor can't be encoded. What is still under way
  when the publisher closes is left to the claim's inbox, which hands it back.
- An item that can't be encoded is given up alone: what was to travel with it travels.
- A home that is gone is no failure: what was for it goes to the queue that it falls back to. A queue
  that is not there is made.
- What was for a stream that is gone, or for the results of a model, is dropped with a log line, and its claims are done. A stream is
  made with its run and deleted with it, by its coordinator alone: where the run has ended nobody wants
  the item any more, and where it has not, its coordinator starts the episode again at its deadline. It
  does not go to `dead`, which is bounded and holds what somebody can mend: the deletion of one large
  run would push that out.

Queues are not declared before the first publish but when a publish finds none: so a queue that was
deleted meanwhile is made at once, and who publishes keeps no record of what is there.
"""

import asyncio
import logging
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass

from warren_broker.batch_publisher import UNENCODABLE, BatchPublisher
from warren_broker.errors import BrokerError, Unroutable
from warren_broker.inbox import Claim
from warren_broker.port import WorkBroker
from warren_broker.topology import Home, Stream, WorkQueue, goes_with_its_run
from warren_schemas.envelope import Item

DRAIN_S = 1.0
"""How long, when the publisher closes, what is under way may take to be confirmed."""
RETRY_S = 1.0
"""How long an item whose successor was not confirmed rests before it comes again."""

Destination = WorkQueue | Home | Stream

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Successor:
    item: Item
    claims: Sequence[Claim[Item]]


class SuccessorPublisher:
    """Made by `open_successor_publisher`."""

    def __init__(self, broker: WorkBroker) -> None:
        self._broker = broker
        self._batch_publisher = BatchPublisher(broker)
        self._waiting: dict[Destination, list[_Successor]] = {}
        self._under_way: set[asyncio.Task[None]] = set()
        self._is_closed = False

    def put(self, address: Destination, item: Item, claims: Sequence[Claim[Item]]) -> None:
        """Publish, and then settle the claims. What comes in one turn of the loop goes together.

        Does nothing once the publisher is closed: the claims go back with their inbox.
        """
        if self._is_closed:
            return
        if not self._waiting:
            asyncio.get_running_loop().call_soon(self._flush)
        self._waiting.setdefault(address, []).append(_Successor(item, claims))

    async def close(self) -> None:
        """Take nothing new; give what is under way a moment."""
        self._flush()
        self._is_closed = True
        if self._under_way:
            await asyncio.wait(self._under_way, timeout=DRAIN_S)
        for task in self._under_way:
            task.cancel()

    def _flush(self) -> None:
        waiting, self._waiting = self._waiting, {}
        for address, successors in waiting.items():
            name = f"{len(successors)} items to {address.name}"
            task = asyncio.create_task(self._deliver(address, successors), name=name)
            self._under_way.add(task)
            task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._under_way.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("claims are not settled", exc_info=error)

    async def _deliver(self, address: Destination, successors: Sequence[_Successor]) -> None:
        try:
            await self._publish(address, [successor.item for successor in successors])
        except BrokerError as error:  # first: `Unroutable` is a LookupError too
            log.warning("%d items for %s not published: %s", len(successors), address.name, error)
            _hand_back(successors)
        except UNENCODABLE as error:
            await self._deliver_singly(address, successors, error)
        except Exception:
            log.exception("%d items for %s not published", len(successors), address.name)
            _hand_back(successors)
        else:
            for claim in _claims(successors):
                claim.done()

    async def _deliver_singly(
        self, address: Destination, successors: Sequence[_Successor], error: Exception
    ) -> None:
        """One of them can't be encoded: that one is given up, the others are not."""
        if len(successors) > 1:
            for successor in successors:
                await self._deliver(address, [successor])
            return
        log.error("%s can't be sent: %s", successors[0].item.envelope.id, error)
        for claim in _claims(successors):
            claim.dead_letter(f"its successor can't be encoded: {error}")

    async def _publish(self, address: Destination, items: Sequence[Item]) -> None:
        try:
            await self._batch_publisher.send_all(address, items)
        except Unroutable:
            if goes_with_its_run(address):
                log.warning("%s is gone: %d items for it dropped", address.name, len(items))
            elif isinstance(address, Home):
                await self._publish(address.fallback, items)
            else:
                await self._broker.declare(address)
                await self._batch_publisher.send_all(address, items)


@asynccontextmanager
async def open_successor_publisher(broker: WorkBroker) -> AsyncGenerator[SuccessorPublisher]:
    publisher = SuccessorPublisher(broker)
    try:
        yield publisher
    finally:
        await publisher.close()


def _hand_back(successors: Sequence[_Successor]) -> None:
    for claim in _claims(successors):
        claim.hand_back(delay_s=RETRY_S)


def _claims(successors: Sequence[_Successor]) -> list[Claim[Item]]:
    return [claim for successor in successors for claim in successor.claims]
