"""The waiting half of every consumer, whichever broker it takes from.

Invariants: whoever waits is woken by an event, never by a timer; a cancelled `__anext__` has taken
nothing; a consumer that always finds something still lets the rest of the event loop run.
"""

import asyncio
from abc import ABC, abstractmethod
from typing import Self

from warren_broker.port import Delivery

N_IN_A_ROW = 32
"""Deliveries handed out without a pause before the event loop gets its turn."""


class WaitingConsumer(ABC):
    """An async iterator over what `_take` finds, for one task."""

    def __init__(self) -> None:
        self._waiter: asyncio.Future[None] | None = None
        self._is_ended = False
        self._error: Exception | None = None
        self._n_in_a_row = 0

    @abstractmethod
    def _take(self) -> Delivery | None:
        """Hand out the next delivery, if there is one and credit for it."""

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Delivery:
        await self._let_others_run()
        while not self._is_ended:
            if (delivery := self._take()) is not None:
                return delivery
            await self._wait()
        raise self._error or StopAsyncIteration

    def end(self, error: Exception | None = None) -> None:
        """End the iteration, or make it raise `error`. The first end counts."""
        if not self._is_ended:
            self._is_ended = True
            self._error = error
            self._wake()

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    async def _wait(self) -> None:
        if self._waiter is not None:
            raise RuntimeError("a consumer serves one task; two are iterating over it")
        self._waiter = asyncio.get_running_loop().create_future()
        self._n_in_a_row = 0
        try:
            await self._waiter
        finally:
            self._waiter = None

    async def _let_others_run(self) -> None:
        self._n_in_a_row += 1
        if self._n_in_a_row > N_IN_A_ROW:
            self._n_in_a_row = 0
            await asyncio.sleep(0)
