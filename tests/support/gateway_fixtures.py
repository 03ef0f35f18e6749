"""What the tests of a gateway and of its coordinators stand on: a real store, the in-process broker,
a listening app."""

import asyncio
import shutil
from collections.abc import AsyncGenerator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from tests.support.gateway import Gateway, open_gateway

import warren
from warren_broker.memory import open_memory
from warren_broker.port import Broker
from warren_gateway.budgets.options import BudgetOptions
from warren_gateway.store.store import Store


@pytest.fixture(scope="session")
def empty_store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with nothing in it: to copy it takes an eighth of what the making takes."""
    path = tmp_path_factory.mktemp("empty") / "warren.db"
    with ThreadPoolExecutor(1) as thread:
        thread.submit(asyncio.run, _made(path)).result()
    return path


async def _made(path: Path) -> None:
    await (await Store.open(f"sqlite:///{path}")).close()


@pytest.fixture
async def store(tmp_path: Path, empty_store: Path) -> AsyncGenerator[Store]:
    shutil.copy(empty_store, tmp_path / "warren.db")
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
