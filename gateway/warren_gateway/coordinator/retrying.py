"""What a coordinator asks of the store and the broker, again and again until they are there."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from functools import partial
from typing import TypeVar, cast

from sqlmodel import Session

from warren_broker.errors import BrokerUnavailable
from warren_broker.port import Broker
from warren_broker.topology import Address, WorkQueue
from warren_gateway.store.store import Store, StoreUnavailable
from warren_schemas.ids import RunId

RETRY_S = 1.0

T = TypeVar("T")
ErrorT = TypeVar("ErrorT", bound=Exception)

log = logging.getLogger(__name__)


class Retrying:
    def __init__(
        self,
        run: RunId,
        store: Store,
        broker: Broker,
        retry_s: float,
        *,
        was_away: Callable[[], None],
    ) -> None:
        """`was_away` is called when the store has answered after a time in which it did not."""
        self._run = run
        self._store = store
        self._broker = broker
        self._retry_s = retry_s
        self._was_away = was_away

    async def transact(self, work: Callable[[Session], T]) -> T:
        return await self._again(partial(self._store.transact, work))

    async def read(self, work: Callable[[Session], T]) -> T:
        return await self._again(partial(self._store.read, work))

    async def _again(self, ask_store: Callable[[], Awaitable[T]]) -> T:
        has_waited = False
        while True:
            try:
                result = await ask_store()
            except StoreUnavailable as error:
                log.warning("%s waits for the store: %s", self._run, error)
                has_waited = True
                await asyncio.sleep(self._retry_s)
                continue
            if has_waited:
                self._was_away()
            return result

    async def declare(self, *addresses: Address) -> None:
        await self._ask(partial(self._broker.declare, *addresses))

    async def delete(self, *queues: WorkQueue) -> None:
        await self._ask(partial(self._broker.delete, *queues))

    async def _ask(self, ask: Callable[[], Awaitable[None]]) -> None:
        while True:
            try:
                return await ask()
            except BrokerUnavailable as error:
                log.warning("%s waits for the broker: %s", self._run, error)
                await asyncio.sleep(self._retry_s)


def find(error: Exception, kind: type[ErrorT]) -> ErrorT | None:
    """The first error of this kind in what may be a group of groups."""
    if isinstance(error, ExceptionGroup):
        below = cast("ExceptionGroup[Exception]", error).exceptions
        return next((found for e in below if (found := find(e, kind))), None)
    return error if isinstance(error, kind) else None
