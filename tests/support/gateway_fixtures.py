"""What the tests of a gateway and of its coordinators stand on: a real store, the in-process broker,
a listening app."""

from collections.abc import AsyncGenerator
from pathlib import Path

import pytest
from tests.support.gateway import Gateway, open_gateway

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
