"""Successors on their way out, and the claims that wait for them.

Invariant: a claim is done only after its successor is confirmed. When the broker can't be reached
in time, the claim is handed back, and its twin finds the successor remembered.
"""

import asyncio
import logging
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass

from warren_broker.courier import Courier
from warren_broker.errors import BrokerError, Unroutable
from warren_broker.inbox import Claim
from warren_broker.port import WorkBroker
from warren_broker.topology import Address, Home, Stream
from warren_env_worker.successor import Successor, Taken
from warren_schemas.frame import WireError

DRAIN_S = 1.0
"""How long, when the worker stops, what is under way may take to be confirmed."""
RETRY_S = 1.0
"""How long an item that could not be answered rests before it comes again."""

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Letter:
    successor: Successor
    claims: Sequence[Claim[Taken]]


class Outbound:
    def __init__(self, broker: WorkBroker) -> None:
        self._broker = broker
        self._courier = Courier(broker)
        self._waiting: dict[Address, list[_Letter]] = {}
        self._declared: set[Address] = set()
        self._under_way: set[asyncio.Task[None]] = set()
        self._is_closed = False

    def put(self, successor: Successor, claims: Sequence[Claim[Taken]]) -> None:
        """Publish, and then settle the claims. What comes in one turn of the loop goes together."""
        if self._is_closed:
            return
        if not self._waiting:
            asyncio.get_running_loop().call_soon(self._depart)
        self._waiting.setdefault(successor.address, []).append(_Letter(successor, claims))

    async def close(self) -> None:
        """Take nothing new; give what is under way a moment."""
        self._depart()
        self._is_closed = True
        if self._under_way:
            await asyncio.wait(self._under_way, timeout=DRAIN_S)
        for task in self._under_way:
            task.cancel()

    def _depart(self) -> None:
        waiting, self._waiting = self._waiting, {}
        for address, letters in waiting.items():
            task = asyncio.create_task(self._send(address, letters), name=f"send to {address.name}")
            self._under_way.add(task)
            task.add_done_callback(self._under_way.discard)

    async def _send(self, address: Address, letters: list[_Letter]) -> None:
        try:
            await self._declare(address)
            await self._courier.send_all(address, [letter.successor.item for letter in letters])
        except WireError as error:
            await self._send_apart(address, letters, error)
        except Unroutable as error:
            await self._nobody_there(address, letters, error)
        except BrokerError as error:
            log.warning("%d items for %s not published: %s", len(letters), address.name, error)
            _hand_back(letters)
        else:
            _settle(letters)

    async def _send_apart(self, address: Address, letters: list[_Letter], error: WireError) -> None:
        """One of them can't be encoded: that one is given up, the others are not."""
        if len(letters) > 1:
            for letter in letters:
                await self._send(address, [letter])
        else:
            log.error("%s can't be sent: %s", letters[0].successor.item.envelope.id, error)
            _give_up(letters, f"the successor can't be encoded: {error}")

    async def _nobody_there(
        self, address: Address, letters: list[_Letter], error: Unroutable
    ) -> None:
        if isinstance(address, Home):  # of a sampler that left
            await self._send(address.fallback, letters)
            return
        log.error("%d items for %s: %s", len(letters), address.name, error)
        if isinstance(address, Stream):  # made with the run and deleted with it: nobody reads it
            _give_up(letters, f"its run is gone: {error}")
        else:
            self._declared.discard(address)
            _hand_back(letters)

    async def _declare(self, address: Address) -> None:
        """Queues are made by whoever comes first, streams by the run's coordinator alone, and homes
        by whom they belong to."""
        if isinstance(address, Stream | Home) or address in self._declared:
            return
        await self._broker.declare(address)
        self._declared.add(address)


@asynccontextmanager
async def opened_outbound(broker: WorkBroker) -> AsyncGenerator[Outbound]:
    outbound = Outbound(broker)
    try:
        yield outbound
    finally:
        await outbound.close()


def _settle(letters: Sequence[_Letter]) -> None:
    for letter in letters:
        for claim in letter.claims:
            claim.done()


def _hand_back(letters: Sequence[_Letter]) -> None:
    for letter in letters:
        for claim in letter.claims:
            claim.hand_back(delay_s=RETRY_S)


def _give_up(letters: Sequence[_Letter], reason: str) -> None:
    for letter in letters:
        for claim in letter.claims:
            claim.dead_letter(reason)
