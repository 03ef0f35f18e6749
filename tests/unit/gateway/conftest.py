"""What the gateway's tests stand on: a real store, the in-process broker, a listening app."""

from collections.abc import AsyncGenerator, Iterator
from pathlib import Path

import pytest
from tests.support.gateway import Gateway, open_gateway

from warren_broker.port import Broker
from warren_gateway.store.store import Store


@pytest.fixture(params=["sqlite", "postgresql"])
def any_store_url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """Tests that ask for this run on both databases."""
    if request.param == "postgresql":
        yield request.getfixturevalue("private_postgres")
    else:
        yield f"sqlite:///{tmp_path / 'warren.db'}"


@pytest.fixture
async def gateway(store: Store, broker: Broker, tmp_path: Path) -> AsyncGenerator[Gateway]:
    async with open_gateway(store, broker, tmp_path / "runs") as gateway:
        yield gateway
