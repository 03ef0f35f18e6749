"""Homes of which a RabbitMQ that was killed while it made them has kept the name alone."""

import asyncio
import shutil
from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from tests.support.brokers import PATIENCE_S, eventually, take
from tests.support.private_rabbit import PrivateRabbit

from warren_broker.errors import Unroutable
from warren_broker.port import Broker
from warren_broker.rabbitmq import home_tickets, open_rabbitmq
from warren_broker.topology import Home, WorkQueue

pytestmark = pytest.mark.timeout(300)  # a busy machine takes its time to boot a node twice

FALLBACK = WorkQueue("interact.walk")
VISIT_S = 0.25
LONG_S = 60.0
"""No home of this grace expires while the tests run."""


def home(name: str) -> Home:
    return Home(f"home.{name}.walk", FALLBACK, grace_s=LONG_S)


ABANDONED, ASKED, ITS_OWN, WHOLE = map(home, ("abandoned", "asked", "its-own", "whole"))


@pytest.fixture(scope="module")
def rabbit(doomed_rabbit: PrivateRabbit) -> Iterator[PrivateRabbit]:
    """A node with three broken homes and a whole one."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(home_tickets, "VISIT_S", VISIT_S)
        asyncio.run(make_and_break(doomed_rabbit))
        yield doomed_rabbit


async def make_and_break(node: PrivateRabbit) -> None:
    async with connected(node) as broker:
        await broker.declare(FALLBACK, WHOLE)
        folders = quorum_folders(node)
        async with asyncio.TaskGroup() as tasks:
            for broken in (ABANDONED, ASKED, ITS_OWN):
                tasks.create_task(broker.declare(broken), name=broken.name)
    new = quorum_folders(node) - folders
    node.kill()
    for folder in new:
        shutil.rmtree(folder)
    node.start()


def quorum_folders(node: PrivateRabbit) -> set[Path]:
    return set(node.folder.glob("data/*/quorum/*/*"))


@asynccontextmanager
async def connected(node: PrivateRabbit) -> AsyncGenerator[Broker]:
    async with open_rabbitmq(node.url, name="test", prefix="breaking.") as broker:
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


async def test_one_that_nobody_asks_for_is_tidied_away_and_a_whole_one_stays(
    rabbit: PrivateRabbit,
) -> None:
    """The ticket of the broken one was written before the server was killed."""
    async with connected(rabbit) as broker:
        assert await broker.depth(ABANDONED) == 0
        await broker.publish(WHOLE, b"1", message_id="1")

        async def is_gone() -> bool:
            return await broker.depth(ABANDONED) is None

        async with tidied(broker):
            await eventually(is_gone)
        assert await broker.depth(WHOLE) == 1
