"""A real PostgreSQL that is killed and comes back, behind a gateway that answers all the while."""

import asyncio
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.brokers import eventually
from tests.support.gateway import open_gateway
from tests.support.private_postgres import PrivatePostgres

from warren_broker.port import Broker
from warren_gateway.store.store import Store
from warren_schemas.http import Problem, RunList


@pytest.fixture
def server() -> Iterator[PrivatePostgres]:
    """One that this test may kill."""
    server = PrivatePostgres(Path(tempfile.mkdtemp(prefix="warren-postgres-")))
    try:
        server.create()
        server.start()
        yield server
    finally:
        server.close()


async def test_a_killed_database_is_503_until_it_is_back(
    server: PrivatePostgres, broker: Broker, tmp_path: Path
) -> None:
    store = await Store.open(server.new_database())
    async with open_gateway(store, broker, tmp_path) as gateway:
        run = await gateway.submit()
        await asyncio.to_thread(server.kill)
        async with gateway.ann.get("/v1/runs") as response:
            assert response.status == 503
            assert "Retry-After" in response.headers
            problem = Problem.model_validate_json(await response.read())
        assert problem.code == "store_unavailable"
        async with gateway.nobody.get("/healthz") as response:
            assert response.status == 503
        async with gateway.ann.get("/v1/workers") as response:
            assert response.status == 200  # what needs no store goes on
        await asyncio.to_thread(server.start)

        async def is_well() -> bool:
            async with gateway.nobody.get("/healthz") as response:
                return response.status == 200

        await eventually(is_well)  # its first answers may take longer than a look at it
        async with gateway.ann.get("/v1/runs") as response:
            runs = RunList.model_validate_json(await response.read()).runs
        assert [view.id for view in runs] == [run]
    await store.close()
