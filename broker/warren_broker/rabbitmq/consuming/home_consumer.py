"""The consumer of a home: its worker's, and nobody else's.

A home's messages live only `grace_s` at the server, also while the worker is there but has no hands
free. So the server sends all of them at once, and they wait here, unacknowledged; at most `prefetch`
are handed out. Handing one back keeps it here too: nobody else could take it. When the worker goes,
all of them fall back together.

At each attach but the first, for which `consume` has done it, the home is prepared (`queue_repair`):
one that the server broke would cost us the connection again and again.
"""

import asyncio
from collections.abc import Awaitable, Callable

from aio_pika.abc import AbstractChannel

from warren_broker.rabbitmq.connection.connection import Link
from warren_broker.rabbitmq.consuming.queue_consumer import Place, QueueConsumer, QueueDelivery
from warren_broker.rabbitmq.entities.republisher import Republisher

_NO_LIMIT = 0


class HomeConsumer(QueueConsumer):
    def __init__(
        self,
        link: Link,
        place: Place,
        prefetch: int,
        republisher: Republisher,
        prepare: Callable[[], Awaitable[None]],
    ) -> None:
        super().__init__(link, place, _NO_LIMIT, republisher)
        self._n_hands = prefetch
        self._prepare = prepare
        self._is_prepared = True

    async def attach(self, channel: AbstractChannel) -> str:
        if not self._is_prepared:
            await self._prepare()
        self._is_prepared = False
        return await super().attach(channel)

    def _take(self) -> QueueDelivery | None:
        return super()._take() if len(self._held) < self._n_hands else None

    def _let_go(self, delivery: QueueDelivery) -> bool:
        is_ours = super()._let_go(delivery)
        self._wake()
        return is_ours

    async def _hand_back(self, delivery: QueueDelivery, delay_s: float) -> None:
        asyncio.get_running_loop().call_later(delay_s, self._come_again, delivery)

    def _come_again(self, delivery: QueueDelivery) -> None:
        if delivery.frames.is_closed:
            return
        self._box.append(delivery.again())
        self._wake()
