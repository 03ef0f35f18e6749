"""Names that are made of another tenant's, to a gateway on PostgreSQL, which takes other texts than SQLite does."""

from collections.abc import AsyncGenerator
from pathlib import Path

import pytest
from tests.fuzz.tenants.attacking import AT_ONCE, attacked
from tests.support.gateway import Gateway, open_gateway

from warren_broker.memory import open_memory
from warren_gateway.store.store import Store

pytestmark = pytest.mark.server
N_ATTACKS = 500


@pytest.fixture
async def gateway(private_postgres: str, tmp_path: Path) -> AsyncGenerator[Gateway]:
    store = await Store.open(private_postgres)
    async with (
        open_memory(None, name="gateway") as broker,
        open_gateway(store, broker, tmp_path / "runs", budgets=AT_ONCE) as gateway,
    ):
        yield gateway
    await store.close()


async def test_names_made_of_another_tenants_are_nobodys_names(
    gateway: Gateway, tmp_path: Path
) -> None:
    told = await attacked(gateway, tmp_path, n_attacks=N_ATTACKS, seed=2)
    assert not told.findings
