"""Successors on their way out, and the claims that wait for them.

Invariant: a claim is done only after its successor is confirmed. When the broker can't be reached
in time, the claim is handed back, and its duplicate finds the successor remembered.
"""

import asyncio
import logging
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass

from warren_broker.batch_publisher import BatchPublisher
from warren_broker.errors import BrokerError, Unroutable
from warren_broker.inbox import Claim
from warren_broker.port import WorkBroker
from warren_broker.topology import Address, Home, Stream
from warren_env_worker.successor import Successor, Taken
from warren_schemas.codec.frame import WireError

DRAIN_S = 1.0
"""How long, when the worker stops, what is under way may take to be confirmed."""
RETRY_S = 1.0
"""How long an item that could not be answered rests before it comes again."""

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Reply:
    successor: Successor
    claims: Sequence[Claim[Taken]]


class ReplyPublisher:
    def __init__(self, broker: WorkBroker) -> None:
        self._broker = broker
        self._batch_publisher = BatchPublisher(broker)
        self._waiting: dict[Address, list[_Reply]] = {}
        self._declared: set[Address] = set()
        self._under_way: set[asyncio.Task[None]] = set()
        self._is_closed = False

    def put(self, successor: Successor, claims: Sequence[Claim[Taken]]) -> None:
        """Publish, and then settle the claims. What comes in one turn of the loop goes together."""
        if self._is_closed:
            return
        if not self._waiting:
            asyncio.get_running_loop().call_soon(self._flush)
        self._waiting.setdefault(successor.address, []).append(_Reply(successor, claims))

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
        for address, replies in waiting.items():
            task = asyncio.create_task(self._send(address, replies), name=f"send to {address.name}")
            self._under_way.add(task)
            task.add_done_callback(self._under_way.discard)

    async def _send(self, address: Address, replies: list[_Reply]) -> None:
        try:
            await self._declare(address)
            await self._batch_publisher.send_all(
                address, [reply.successor.item for reply in replies]
            )
        except WireError as error:
            await self._send_apart(address, replies, error)
        except Unroutable as error:
            await self._nobody_there(address, replies, error)
        except BrokerError as error:
            log.warning("%d items for %s not published: %s", len(replies), address.name, error)
            _hand_back(replies)
        else:
            _settle(replies)

    async def _send_apart(self, address: Address, replies: list[_Reply], error: WireError) -> None:
        """One of them can't be encoded: that one is given up, the others are not."""
        if len(replies) > 1:
            for reply in replies:
                await self._send(address, [reply])
        else:
            log.error("%s can't be sent: %s", replies[0].successor.item.envelope.id, error)
            _give_up(replies, f"the successor can't be encoded: {error}")

    async def _nobody_there(
        self, address: Address, replies: list[_Reply], error: Unroutable
    ) -> None:
        if isinstance(address, Home):  # of a sampler that left
            await self._send(address.fallback, replies)
            return
        log.error("%d items for %s: %s", len(replies), address.name, error)
        if isinstance(address, Stream):  # made with the run and deleted with it: nobody reads it
            _give_up(replies, f"its run is gone: {error}")
        else:
            self._declared.discard(address)
            _hand_back(replies)

    async def _declare(self, address: Address) -> None:
        """Queues are made by whoever comes first, streams by the run's coordinator alone, and homes
        by whom they belong to."""
        if isinstance(address, Stream | Home) or address in self._declared:
            return
        await self._broker.declare(address)
        self._declared.add(address)


@asynccontextmanager
async def opened_reply_publisher(broker: WorkBroker) -> AsyncGenerator[ReplyPublisher]:
    replies = ReplyPublisher(broker)
    try:
        yield replies
    finally:
        await replies.close()


def _settle(replies: Sequence[_Reply]) -> None:
    for reply in replies:
        for claim in reply.claims:
            claim.done()


def _hand_back(replies: Sequence[_Reply]) -> None:
    for reply in replies:
        for claim in reply.claims:
            claim.hand_back(delay_s=RETRY_S)


def _give_up(replies: Sequence[_Reply], reason: str) -> None:
    for reply in replies:
        for claim in reply.claims:
            claim.dead_letter(reason)
