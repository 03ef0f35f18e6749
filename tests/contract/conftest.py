"""Every test of this folder that asks for `place` runs over each implementation of the port."""

from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager

import pytest
from tests.support.brokers import Opener, Place
from tests.support.private_rabbit import PrivateRabbit

from warren_broker.memory import MemoryHub, open_hub
from warren_broker.port import Broker
from warren_broker.rabbitmq import open_rabbitmq


@pytest.fixture(params=["in-process", "rabbitmq"])
async def place(request: pytest.FixtureRequest) -> AsyncGenerator[Place]:
    async with AsyncExitStack() as stack:
        if request.param == "rabbitmq":
            open_client = _rabbitmq(request.getfixturevalue("private_rabbit"))
        else:
            open_client = _in_process(await stack.enter_async_context(open_hub()))
        place = Place(request.param, open_client, stack)
        yield place
        await (await place.client("cleaner")).delete(*place.used)


@pytest.fixture
async def broker(place: Place) -> Broker:
    return await place.client()


def _in_process(hub: MemoryHub) -> Opener:
    @asynccontextmanager
    async def open_client(name: str) -> AsyncGenerator[Broker]:
        client = hub.client(name)
        yield client
        await client.close()

    return open_client


def _rabbitmq(node: PrivateRabbit) -> Opener:
    @asynccontextmanager
    async def open_client(name: str) -> AsyncGenerator[Broker]:
        async with open_rabbitmq(node.url, name=name, settle_s=0.0) as client:
            yield client

    return open_client
