"""What counts as an answer of a queue, and what doesn't."""

from collections.abc import Awaitable, Callable
from typing import Any, TypeVar, cast

import pytest

from warren_broker.rabbitmq.connection.connection import Link
from warren_broker.rabbitmq.connection.failures import Lost
from warren_broker.rabbitmq.connection.timings import Timings
from warren_broker.rabbitmq.entities.broken_queues import ask

T = TypeVar("T")


class Unreachable:
    """A link whose connections time out by themselves."""

    timings = Timings()

    async def call(self, run: Callable[[object], Awaitable[T]], *, timeout_s: float) -> T:
        return await run(self)

    async def dial(self) -> "Unreachable":
        return self

    async def hang_up(self, connection: object) -> None: ...

    async def channel(self) -> "Unreachable":
        return self

    async def get_underlay_channel(self) -> "Unreachable":
        return self

    async def basic_get(self, name: str) -> Any:
        raise TimeoutError("[Errno 110] Connection timed out")


async def test_a_connection_that_times_out_says_nothing_of_the_queue() -> None:
    with pytest.raises(Lost, match="timed out"):
        await ask(cast(Link, Unreachable()), "queue")
