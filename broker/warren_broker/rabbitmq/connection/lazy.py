"""A connection that is made when somebody first needs it."""

import asyncio

from warren_broker.rabbitmq.connection.connection import Link


class LazyLink:
    """One `Link`, started by the first who asks; it heals by itself from then on."""

    def __init__(self, link: Link, *, timeout_s: float) -> None:
        self._link = link
        self._timeout_s = timeout_s
        self._one_at_a_time = asyncio.Lock()

    async def started(self) -> Link:
        """Raises `BrokerUnavailable`, `BrokerClosed`."""
        async with self._one_at_a_time:
            if not self._link.n_connections:
                await self._link.start(timeout_s=self._timeout_s)
        return self._link

    async def close(self) -> None:
        await self._link.close()
