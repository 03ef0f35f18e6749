"""A client of PostgreSQL that stopped in the middle of a pipeline keeps its locks until it is ended."""

import asyncio
from functools import partial

import psycopg
import pytest
from sqlmodel import Session
from tests.support.gateway import CONFIG
from tests.support.patience import PATIENCE_S

from warren_gateway.coordinator import run_leases
from warren_gateway.store.store import Store
from warren_gateway.store.tables import Run


def _add_run(session: Session) -> None:
    session.add(
        Run(
            id="run_1",
            owner="me",
            name="r",
            config=CONFIG,
            state="queued",
            n_steps=1,
            created_s=1.0,
        )
    )


def _lock_it_and_stop(url: str) -> psycopg.Connection:
    """As a gateway that freezes while it sends many rows: PostgreSQL waits for the pipeline's end."""
    name = "warren-gateway"
    client = psycopg.connect(url.replace("+psycopg", ""), application_name=name)
    client.execute("UPDATE run SET revision = revision + 1")
    client.pgconn.enter_pipeline_mode()
    client.pgconn.send_query_params(b"SELECT 1", None)
    client.pgconn.send_flush_request()
    client.pgconn.flush()
    return client


async def test_a_run_is_taken_over_from_a_gateway_that_froze_in_a_pipeline(
    private_postgres: str,
) -> None:
    store = await Store.open(private_postgres)
    claim = partial(run_leases.claim, gateway="heir", lease_s=3600.0)
    await store.transact(_add_run)
    zombie = await asyncio.to_thread(_lock_it_and_stop, private_postgres)
    assert await store.transact(claim) == {}
    claim = partial(run_leases.claim, gateway="heir", lease_s=1.0)
    async with asyncio.timeout(PATIENCE_S):
        while not await store.transact(claim):  # noqa: ASYNC110 - a lock that is free tells nobody
            await asyncio.sleep(0.1)
    with pytest.raises(psycopg.OperationalError):
        zombie.pgconn.exit_pipeline_mode()
        zombie.execute("SELECT 1")
    zombie.close()
    await store.close()
