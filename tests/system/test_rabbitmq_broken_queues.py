"""Queues of which a RabbitMQ that was killed while it made them has kept half."""

import asyncio
import shutil
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from tests.support.brokers import PATIENCE_S, eventually, take
from tests.support.patience import several_waits
from tests.support.private_rabbit import PrivateRabbit

from warren_broker.errors import Unroutable
from warren_broker.port import Broker
from warren_broker.rabbitmq import Timings, open_rabbitmq
from warren_broker.topology import Home, WorkQueue, results, train

pytestmark = several_waits  # a busy machine takes its time to boot a node twice

FALLBACK = WorkQueue("interact.walk")
IMPATIENT = Timings(visit_s=0.25, answer_s=1.0)
LONG_S = 600.0
"""No home of this life expires while the tests run."""


def home(name: str) -> Home:
    return Home(f"home.{name}.walk", FALLBACK, grace_s=LONG_S, expires_s=LONG_S)


ABANDONED, ASKED, ITS_OWN, WHOLE, MUTE = map(
    home, ("abandoned", "asked", "its-own", "whole", "mute")
)
GONE_QUEUE, MUTE_QUEUE, WHOLE_QUEUE = results("model"), train("model", 2), train("model", 1)


@pytest.fixture(scope="module")
def rabbit(doomed_rabbit: PrivateRabbit) -> PrivateRabbit:
    """A node with queues and homes that are whole, have no process, and are mute."""
    asyncio.run(make_and_break(doomed_rabbit))
    return doomed_rabbit


async def make_and_break(node: PrivateRabbit) -> None:
    """The server forgets the logs of some queues, and whose log it is of others."""
    (registry,) = node.folder.glob("data/*/quorum/*/names.dets")
    async with connected(node) as broker:
        await broker.declare(FALLBACK, WHOLE, WHOLE_QUEUE)
        folders = quorum_folders(node)
        await declare_at_once(broker, ABANDONED, ASKED, ITS_OWN, GONE_QUEUE)
        gone, registered = quorum_folders(node) - folders, registry.read_bytes()
        await declare_at_once(broker, MUTE, MUTE_QUEUE)
    node.kill()
    registry.write_bytes(registered)
    for folder in gone:
        shutil.rmtree(folder)
    node.start()


async def declare_at_once(broker: Broker, *queues: WorkQueue | Home) -> None:
    async with asyncio.TaskGroup() as tasks:
        for queue in queues:
            tasks.create_task(broker.declare(queue), name=queue.name)


def quorum_folders(node: PrivateRabbit) -> set[Path]:
    return set(node.folder.glob("data/*/quorum/*/*")) - set(node.folder.glob("data/*/quorum/*/*.*"))


@asynccontextmanager
async def connected(node: PrivateRabbit) -> AsyncGenerator[Broker]:
    opening = open_rabbitmq(node.url, name="test", prefix="breaking.", timings=IMPATIENT)
    async with opening as broker:
        yield broker


@asynccontextmanager
async def tidied(broker: Broker) -> AsyncGenerator[None]:
    task = asyncio.create_task(broker.tidy(), name="tidy")
    try:
        yield
    finally:
        task.cancel()
        await asyncio.wait([task])


async def test_one_that_is_asked_for_counts_as_forgotten(rabbit: PrivateRabbit) -> None:
    """Where nobody heals it, whoever publishes to it loses its connection again and again."""
    async with connected(rabbit) as broker:
        assert await broker.depth(ASKED) == 0
        with pytest.raises(Unroutable):
            await broker.publish(ASKED, b"1", message_id="1", timeout_s=PATIENCE_S)
        assert await broker.depth(ASKED) is None


async def test_its_own_worker_makes_it_anew(rabbit: PrivateRabbit) -> None:
    async with connected(rabbit) as broker, broker.consume(ITS_OWN, prefetch=1) as consumer:
        await broker.publish(ITS_OWN, b"1", message_id="1")
        await (await take(consumer)).ack()


async def test_what_is_for_a_mute_home_goes_to_its_fallback(rabbit: PrivateRabbit) -> None:
    async with connected(rabbit) as broker, broker.consume(FALLBACK, prefetch=1) as consumer:
        await broker.publish(MUTE, b"1", message_id="1")
        await (await take(consumer)).ack()


async def test_one_that_nobody_asks_for_is_tidied_away_and_a_whole_one_stays(
    rabbit: PrivateRabbit,
) -> None:
    """The visits to the broken ones were planned before the server was killed."""
    broken, whole = (ABANDONED, GONE_QUEUE, MUTE, MUTE_QUEUE), (WHOLE, WHOLE_QUEUE)
    async with connected(rabbit) as broker:
        assert [await broker.depth(queue) for queue in broken] == [0] * len(broken)
        for queue in whole:
            await broker.publish(queue, b"1", message_id="1")

        async def are_gone() -> bool:
            return [await broker.depth(queue) for queue in broken] == [None] * len(broken)

        async with tidied(broker):
            await eventually(are_gone)
        assert [await broker.depth(queue) for queue in whole] == [1] * len(whole)
