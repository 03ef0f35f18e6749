"""Every test of this folder that asks for `place` runs over each implementation of the port.

`remote` is the part of the port that an env worker uses (`port.WorkBroker`: declaring, publishing,
consuming, listening, settling, giving up), carried over a WebSocket to a gateway's room, before either
broker. The rest, which only who runs the system uses (streams, depths, looking at dead letters,
deleting), goes to the broker behind the room, so that the tests can look at what became of it.
"""

from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager

import pytest
from tests.support.brokers import Opener, Place
from tests.support.private_rabbit import PrivateRabbit
from tests.support.remote import open_remote_part, rooms_for_all

from warren_broker.memory import MemoryHub, open_hub
from warren_broker.port import Broker
from warren_broker.rabbitmq import open_rabbitmq


@pytest.fixture(params=["in-process", "rabbitmq", "remote", "remote before rabbitmq"])
async def place(request: pytest.FixtureRequest) -> AsyncGenerator[Place]:
    async with AsyncExitStack() as stack:
        if request.param.endswith("rabbitmq"):
            open_client = _rabbitmq(request.getfixturevalue("private_rabbit"))
        else:
            open_client = _in_process(await stack.enter_async_context(open_hub()))
        if request.param.startswith("remote"):
            open_client = await _remote(open_client, stack)
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


async def _remote(open_direct: Opener, stack: AsyncExitStack) -> Opener:
    gateway = await stack.enter_async_context(open_direct("gateway"))
    url = await stack.enter_async_context(rooms_for_all(gateway))

    @asynccontextmanager
    async def open_client(name: str) -> AsyncGenerator[Broker]:
        async with open_remote_part(url, gateway, name) as client:
            yield client

    return open_client


def _rabbitmq(node: PrivateRabbit) -> Opener:
    @asynccontextmanager
    async def open_client(name: str) -> AsyncGenerator[Broker]:
        async with open_rabbitmq(node.url, name=name, settle_s=0.0) as client:
            yield client

    return open_client
