"""What the tests of a gateway and of its coordinators stand on: a real store, the in-process broker,
a listening app."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from tests.support.gateway import Gateway, open_gateway

import warren
from warren_broker.memory import open_memory
from warren_broker.port import Broker
from warren_gateway.budgets.options import BudgetOptions
from warren_gateway.store.store import Store


@pytest.fixture
async def store(tmp_path: Path) -> AsyncGenerator[Store]:
    store = await Store.open(f"sqlite:///{tmp_path / 'warren.db'}")
    yield store
    await store.close()


@pytest.fixture
async def broker() -> AsyncGenerator[Broker]:
    async with open_memory(None, name="gateway") as broker:
        yield broker


@pytest.fixture
def budgets() -> BudgetOptions:
    """Of the gateway; a test parametrizes it."""
    return BudgetOptions()


@pytest.fixture
async def gateway(
    store: Store, broker: Broker, tmp_path: Path, budgets: BudgetOptions
) -> AsyncGenerator[Gateway]:
    async with open_gateway(store, broker, tmp_path / "runs", budgets=budgets) as gateway:
        yield gateway


@asynccontextmanager
async def connected(gateway: Gateway) -> AsyncGenerator[warren.Client]:
    """The SDK's client of `ann`."""
    key = gateway.ann.headers["Authorization"].removeprefix("Bearer ")
    async with warren.connect(gateway.url, key, retry_s=2.0) as client:
        yield client


@pytest.fixture
async def client(gateway: Gateway) -> AsyncGenerator[warren.Client]:
    async with connected(gateway) as client:
        yield client
