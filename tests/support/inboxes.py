"""Putting items into queues and claiming them."""

import asyncio

import pytest
from tests.support.brokers import PATIENCE_S, QUIET_S

from warren_broker.inbox import Claim, Inbox, ItemT
from warren_broker.port import Broker
from warren_broker.topology import WorkQueue
from warren_schemas.codec.wire import encode
from warren_schemas.envelope import Item


async def publish_items(broker: Broker, queue: WorkQueue, *items: Item) -> None:
    """One message with all of them, in a queue that is there from now on."""
    await broker.declare(queue)
    await broker.publish(queue, encode(items), message_id=items[0].envelope.id)


async def claim_items(inbox: Inbox[ItemT], n: int) -> list[Claim[ItemT]]:
    """The next `n` claims."""
    claims: list[Claim[ItemT]] = []
    async with asyncio.timeout(PATIENCE_S):
        while len(claims) < n:
            claims.extend(await anext(inbox))
    assert len(claims) == n
    return claims


async def assert_no_claims(inbox: Inbox[Item]) -> None:
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(QUIET_S):
            await anext(inbox)
