"""A gateway on a hub, and remote env workers that connect to it."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import pytest
from tests.support.gateway import Gateway

from warren_broker.memory import MemoryHub, open_hub
from warren_broker.port import Broker
from warren_broker.remote import RemoteBroker, open_remote
from warren_gateway.access.key import Key


@pytest.fixture
async def hub() -> AsyncGenerator[MemoryHub]:
    async with open_hub() as hub:
        yield hub


@pytest.fixture
async def broker(hub: MemoryHub) -> AsyncGenerator[Broker]:
    """The gateway's own client."""
    client = hub.client("gateway")
    yield client
    await client.close()


async def key_of(gateway: Gateway, owner: str) -> Key:
    key = Key.new()
    await gateway.services.keys.add(key, owner)
    return key


@asynccontextmanager
async def remote(
    gateway: Gateway, owner: str = "ann", worker: str = "env_1"
) -> AsyncGenerator[RemoteBroker]:
    key = await key_of(gateway, owner)
    async with open_remote(gateway.url, api_key=str(key), worker=worker) as broker:
        yield broker
