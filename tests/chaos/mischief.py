"""Messages that come twice or late, done by a consumer that nobody asked for.

It takes messages from a queue like any worker, keeps them for a while, and publishes each again once
or twice before it acknowledges. That is within what a broker may do at any time.
"""

import asyncio

from warren_broker.errors import BrokerError
from warren_broker.port import Broker, Consumer, Delivery
from warren_broker.topology import WorkQueue
from warren_schemas.ids import new_message_id

QUIET_S = 1.0
"""A queue that brings nothing for this long has nothing to take."""


async def meddle(
    broker: Broker, queue: WorkQueue, *, n_messages: int, n_copies: int, delay_s: float
) -> int:
    """Take up to `n_messages`, and give each back `n_copies` times after `delay_s`; how many."""
    async with broker.consume(queue, prefetch=n_messages) as consumer:
        taken = await _take(consumer, n_messages)
        await asyncio.sleep(delay_s)
        for delivery in taken:
            await _give_back(broker, queue, delivery, n_copies)
    return len(taken)


async def _take(consumer: Consumer, n_messages: int) -> list[Delivery]:
    taken: list[Delivery] = []
    try:
        while len(taken) < n_messages:
            taken.append(await asyncio.wait_for(anext(aiter(consumer)), QUIET_S))
    except (TimeoutError, StopAsyncIteration):
        pass
    return taken


async def _give_back(broker: Broker, queue: WorkQueue, delivery: Delivery, n_copies: int) -> None:
    try:
        for _ in range(n_copies):
            await broker.publish(queue, delivery.body, message_id=new_message_id(), timeout_s=20.0)
    except BrokerError:
        await delivery.nack()
    else:
        await delivery.ack()
