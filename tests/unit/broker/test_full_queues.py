"""Queues of the in-process broker that are full: who publishes waits, and may give up."""

import asyncio
import gc
import os
import sys
from collections.abc import Awaitable
from dataclasses import replace

import pytest
from tests.support.brokers import PATIENCE_S, take

from warren_broker.errors import BrokerClosed, BrokerUnavailable
from warren_broker.memory import open_hub, open_memory
from warren_broker.topology import WorkQueue

QUEUE = WorkQueue("work")


async def test_a_timeout_of_a_full_queue_is_said_so() -> None:
    full = replace(QUEUE, max_messages=1)
    async with open_memory() as broker, asyncio.timeout(PATIENCE_S):
        await broker.declare(full)
        await broker.publish(full, b"1", message_id="1")
        with pytest.raises(BrokerUnavailable, match=r"work took no message within 0\.05 s"):
            await broker.publish(full, b"2", message_id="2", timeout_s=0.05)
        async with broker.consume(full, prefetch=2) as consumer:
            assert (await take(consumer)).body == b"1"
            await broker.publish(full, b"3", message_id="3")
            assert (await take(consumer)).body == b"3"


async def test_a_full_queue_keeps_nothing_of_publishers_that_gave_up() -> None:
    full, body = replace(QUEUE, max_messages=1), os.urandom(1000)
    async with open_hub() as hub, asyncio.timeout(PATIENCE_S):
        broker, leaving = hub.client("a"), hub.client("b")
        await broker.declare(full)
        await broker.publish(full, b"first", message_id="first")
        n_before = sys.getrefcount(body)
        gone = asyncio.create_task(given_up(leaving.publish(full, body, message_id="gone")))
        last = asyncio.create_task(broker.publish(full, b"last", message_id="last"))
        for i in range(10):
            await given_up(broker.publish(full, body, message_id=f"{i}", timeout_s=0.0))
        await leaving.close()
        await gone
        del gone
        gc.collect()
        assert sys.getrefcount(body) == n_before
        async with broker.consume(full, prefetch=2) as consumer:
            assert [(await take(consumer)).body for _ in range(2)] == [b"first", b"last"]
        await last


async def given_up(publishing: Awaitable[None]) -> None:
    with pytest.raises((BrokerUnavailable, BrokerClosed)):
        await publishing
