"""Messages on their way to another place: `dead`, or the same queue after a delay.

Invariant: both return only after the copy was confirmed; who calls acks the original then.
"""

import asyncio

from aiormq.abc import DeliveredMessage

from warren_broker.port import MAX_REASON_CHARS
from warren_broker.rabbitmq.entities.declared_entities import DeclaredEntities
from warren_broker.rabbitmq.entities.entities import Entities, retry_delay_s
from warren_broker.rabbitmq.publishing.messages import (
    N_BEFORE,
    REASON,
    Headers,
    OutgoingMessage,
    kept_headers,
)
from warren_broker.rabbitmq.publishing.publisher import Publisher

MOVE_S = 60.0


class Republisher:
    def __init__(
        self, publisher: Publisher, declared: DeclaredEntities, entities: Entities
    ) -> None:
        self._publisher = publisher
        self._declared = declared
        self._entities = entities

    async def retry(
        self, message: DeliveredMessage, *, queue: str, n_deliveries: int, delay_s: float
    ) -> None:
        """Send it to `queue` (its name at the server) after about `delay_s`, never earlier."""
        headers = kept_headers(message) | {N_BEFORE: n_deliveries}
        await self.put(message.body, queue=queue, headers=headers, delay_s=delay_s)

    async def put(
        self,
        body: bytes,
        *,
        queue: str,
        headers: Headers,
        delay_s: float,
        timeout_s: float = MOVE_S,
    ) -> None:
        """Let a message be in `queue` (its name at the server) after about `delay_s`."""
        step_s = retry_delay_s(delay_s)
        await self._declared.ensure_once(self._entities.retry(step_s), timeout_s=timeout_s)
        exchange = self._entities.retry_name(step_s)
        await self._send(OutgoingMessage(exchange, queue, body, headers), timeout_s)

    async def give_up(self, body: bytes, *, queue: str, reason: str, headers: Headers) -> None:
        """Send it to `dead`, as coming from `queue` (its name at the server)."""
        marked = {**headers, REASON: reason[:MAX_REASON_CHARS]}
        await self._send(OutgoingMessage(self._entities.lost, queue, body, marked), MOVE_S)

    async def _send(self, outgoing: OutgoingMessage, timeout_s: float) -> None:
        deadline = asyncio.get_running_loop().time() + timeout_s
        await self._publisher.publish(outgoing, deadline=deadline)
