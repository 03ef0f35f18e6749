"""Health probes of the store and the broker, with a deadline."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeVar

from sqlalchemy import text
from sqlmodel import Session

from warren_broker.errors import BrokerError, BrokerUnavailable
from warren_broker.port import Broker
from warren_broker.topology import DEAD
from warren_gateway.store.store import Store, StoreUnavailable

T = TypeVar("T")

ANSWER_S = 2.0
"""Who answers within this counts as well."""


class Probe:
    """Asks one question at a time, however many want to know the answer."""

    def __init__(
        self, ask: Callable[[], Coroutine[Any, Any, bool]], *, answer_s: float = ANSWER_S
    ) -> None:
        self._ask = ask
        self._answer_s = answer_s
        self._asking: asyncio.Task[bool] | None = None

    async def is_well(self) -> bool:
        """What was answered; False when nothing was in time. A question under way goes on."""
        if self._asking is None or self._asking.done():
            self._asking = asyncio.create_task(self._ask(), name="probe")
        await asyncio.wait([self._asking], timeout=self._answer_s)
        return self._asking.done() and self._asking.result()


async def answers_store(store: Store) -> bool:
    try:
        await store.transact(_ask)
    except StoreUnavailable:
        return False
    return True


async def answers_broker(broker: Broker) -> bool:
    try:
        await broker.depth(DEAD)
    except BrokerError:
        return False
    return True


async def within(seconds: float, calling: Awaitable[T]) -> T:
    """Await a call to the broker. Raises `BrokerUnavailable` when it takes longer."""
    try:
        async with asyncio.timeout(seconds):
            return await calling
    except TimeoutError as error:
        raise BrokerUnavailable(f"no answer within {seconds:g} s") from error


def _ask(session: Session) -> None:
    session.connection().execute(text("SELECT 1"))
