"""How many messages may be under way to a small queue at once.

A quorum queue tells its publishers that it is full only after the fact, so whatever is under way
then still gets in. To keep a small bound meaningful, a client has at most a quarter of it under way.
"""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from warren_broker.errors import BrokerUnavailable
from warren_broker.topology import WorkQueue

SMALL = 1000
"""A bound on the number of messages below which a queue is small."""


class SendLimits:
    def __init__(self) -> None:
        self._semaphores: dict[str, asyncio.Semaphore] = {}

    @asynccontextmanager
    async def enter(self, queue: WorkQueue, *, timeout_s: float) -> AsyncGenerator[None]:
        """Wait for a place in the window. Raises `BrokerUnavailable` after `timeout_s`."""
        n = max(1, queue.max_messages // 4)
        semaphore = self._semaphores.setdefault(queue.name, asyncio.Semaphore(n))
        try:
            async with asyncio.timeout(timeout_s):
                await semaphore.acquire()
        except TimeoutError as error:
            raise BrokerUnavailable(f"{queue.name} was full for {timeout_s:g} s") from error
        try:
            yield
        finally:
            semaphore.release()
