"""A real PostgreSQL that is killed and comes back, behind a gateway that answers all the while."""

import asyncio
import tempfile
from collections.abc import Iterator
from pathlib import Path

import aiohttp
import pytest
from sqlmodel import Session
from tests.support.brokers import eventually
from tests.support.gateway import open_gateway
from tests.support.patience import PATIENCE_S
from tests.support.private_postgres import PrivatePostgres

from warren_broker.port import Broker
from warren_gateway.store.store import Store
from warren_gateway.store.tables import Run
from warren_gateway.timings import EventTimings, StreamTimings
from warren_schemas.events import RunState
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


async def test_events_that_may_lie_in_a_database_that_is_away_have_no_end(
    server: PrivatePostgres, broker: Broker, tmp_path: Path
) -> None:
    """The stream is cut off, so that nobody takes it for all."""
    soon = StreamTimings(events=EventTimings(quiet_s=0.01, look_s=0.01, store_away_s=0.1))
    store = await Store.open(server.new_database())
    async with open_gateway(store, broker, tmp_path, timings=soon) as gateway:
        run = await gateway.submit()  # its first event stays in the outbox: nothing relays here

        def end(session: Session) -> None:
            session.get_one(Run, run).state = RunState.COMPLETED

        await store.transact(end)
        async with gateway.ann.get(f"/v1/runs/{run}/events") as response:
            await asyncio.to_thread(server.kill)
            with pytest.raises(aiohttp.ClientPayloadError):
                async with asyncio.timeout(PATIENCE_S):
                    await response.content.read()
    await store.close()
