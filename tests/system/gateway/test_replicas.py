"""Two gateways on one PostgreSQL: either answers for every run, and one drives it."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import aiohttp
import pytest
from sqlmodel import Session
from tests.support.gateway import CONFIG
from tests.support.jobs import admit_all
from tests.support.patience import PATIENCE_S
from tests.support.processes import free_port

from warren_broker.memory import MemoryHub, open_hub
from warren_gateway.access.key import Key
from warren_gateway.archive.folder import COMPLETE
from warren_gateway.coordinator import run_leases
from warren_gateway.service import serve_gateway
from warren_gateway.settings import GatewaySettings
from warren_gateway.store.store import Store
from warren_gateway.store.tables import Run
from warren_schemas.http import RunView
from warren_schemas.ids import RunId

LONG_LEASE_S = 30.0
"""Both gateways are this one process: a pause of it must not cost them their leases."""


@asynccontextmanager
async def serving(
    hub: MemoryHub, store_url: str, home: Path, key: Key
) -> AsyncGenerator[aiohttp.ClientSession]:
    settings = GatewaySettings(
        home=home,
        store_url=store_url,
        archive_url=(home.parent / "archive").as_uri(),
        port=free_port(),
        run_lease_s=LONG_LEASE_S,
        api_key=f"wk_{key.id}_{key.secret}",
    )
    ready, client = asyncio.Event(), hub.client(home.name)
    task = asyncio.create_task(serve_gateway(client, settings, ready=ready), name=home.name)
    try:
        async with asyncio.timeout(PATIENCE_S):
            await ready.wait()
        headers = {"Authorization": f"Bearer {settings.api_key}"}
        async with aiohttp.ClientSession(
            f"http://127.0.0.1:{settings.port}", headers=headers
        ) as session:
            yield session
    finally:
        task.cancel()
        await asyncio.wait({task})
        await client.close()


async def view(client: aiohttp.ClientSession, run: str) -> RunView:
    async with client.get(f"/v1/runs/{run}") as response:
        return RunView.model_validate_json(await response.read())


async def driver(store: Store, run: str) -> tuple[str | None, int]:
    def look(session: Session) -> tuple[str | None, int]:
        row = session.get_one(Run, run)
        return row.coordinator, row.epoch

    return await store.transact(look)


async def driven(store: Store, run: str, *, after: int = 0) -> tuple[str | None, int]:
    """Have the run's job admitted; wait until somebody drives the run in an epoch after this one."""
    await store.transact(admit_all)
    async with asyncio.timeout(PATIENCE_S):
        while (found := await driver(store, run))[1] <= after:  # noqa: ASYNC110 - no event for us
            await asyncio.sleep(0.1)
    return found


async def test_a_run_moves_to_the_gateway_that_is_left(
    private_postgres: str, tmp_path: Path
) -> None:
    key = Key.new()
    async with open_hub() as hub, AsyncExitStack() as left, AsyncExitStack() as leaving:
        one = await leaving.enter_async_context(
            serving(hub, private_postgres, tmp_path / "one", key)
        )
        store = await Store.open(private_postgres)
        left.push_async_callback(store.close)
        async with one.post("/v1/runs", json={"config": CONFIG}) as response:
            run = str((await response.json())["id"])
        first, epoch = await driven(store, run)
        two = await left.enter_async_context(serving(hub, private_postgres, tmp_path / "two", key))
        assert (await view(two, run)).id == run
        await leaving.aclose()
        second, later = await driven(store, run, after=epoch)
        assert later == epoch + 1 and first != second
        async with two.post(f"/v1/runs/{run}/cancel") as response:
            assert response.status == 200
        async with two.get(f"/v1/runs/{run}/events") as response, asyncio.timeout(PATIENCE_S):
            events = await response.text()
    assert '"state":"cancelled"' in events


async def test_the_gateway_that_is_left_archives_what_it_takes_over(
    private_postgres: str, tmp_path: Path
) -> None:
    key, config = Key.new(), {**CONFIG, "retention": {"archive": "jsonl"}}
    async with open_hub() as hub, AsyncExitStack() as left, AsyncExitStack() as leaving:
        one = await leaving.enter_async_context(
            serving(hub, private_postgres, tmp_path / "one", key)
        )
        store = await Store.open(private_postgres)
        left.push_async_callback(store.close)
        async with one.post("/v1/runs", json={"config": config}) as response:
            run = str((await response.json())["id"])
        _, epoch = await driven(store, run)
        await left.enter_async_context(serving(hub, private_postgres, tmp_path / "two", key))
        await leaving.aclose()
        await driven(store, run, after=epoch)
        await store.transact(lambda session: request_its_end(session, run))
        async with asyncio.timeout(PATIENCE_S):
            while not (tmp_path / "archive" / run / COMPLETE).exists():  # noqa: ASYNC110
                await asyncio.sleep(0.1)


def request_its_end(session: Session, run: str) -> None:
    """As `cancel` does it, without telling any gateway."""
    session.get_one(Run, run).is_cancel_requested = True


async def test_a_wish_told_to_one_gateway_reaches_the_other(
    private_postgres: str, tmp_path: Path
) -> None:
    key = Key.new()
    async with (
        open_hub() as hub,
        serving(hub, private_postgres, tmp_path / "one", key) as one,
        serving(hub, private_postgres, tmp_path / "two", key) as two,
    ):
        async with one.post("/v1/runs", json={"config": CONFIG}) as response:
            run = str((await response.json())["id"])
        async with two.post(f"/v1/runs/{run}/cancel") as response:
            assert response.status == 200
        async with two.get(f"/v1/runs/{run}/events") as response:
            async with asyncio.timeout(PATIENCE_S):
                assert '"state":"cancelled"' in await response.text()


async def steal(store: Store) -> dict[RunId, int]:
    """A run that its coordinator is just writing is locked, and left for the next look."""
    async with asyncio.timeout(PATIENCE_S):
        while not (
            stolen := await store.transact(
                lambda session: run_leases.claim(session, "thief", is_alone=True)
            )
        ):
            pass
    return stolen


async def test_a_coordinator_that_lost_its_lease_stops(
    private_postgres: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    key = Key.new()
    async with (
        open_hub() as hub,
        serving(hub, private_postgres, tmp_path / "one", key) as one,
    ):
        store = await Store.open(private_postgres)
        async with one.post("/v1/runs", json={"config": CONFIG}) as response:
            run = str((await response.json())["id"])
        await driven(store, run)
        assert await steal(store) == {run: 2}
        async with one.post(f"/v1/runs/{run}/cancel") as response:
            assert response.status == 200
        async with asyncio.timeout(PATIENCE_S):
            while "another gateway has taken over" not in caplog.text:  # noqa: ASYNC110
                await asyncio.sleep(0.1)
        assert (await view(one, run)).state == "queued"
        assert await driver(store, run) == ("thief", 2)
        await store.close()


async def test_a_run_is_paused_by_the_gateway_that_does_not_drive_it_long_before_a_renewal(
    private_postgres: str, tmp_path: Path
) -> None:
    key = Key.new()
    async with (
        open_hub() as hub,
        serving(hub, private_postgres, tmp_path / "one", key) as one,
    ):
        store = await Store.open(private_postgres)
        async with one.post("/v1/runs", json={"config": CONFIG}) as response:
            run = str((await response.json())["id"])
        await driven(store, run)
        async with serving(hub, private_postgres, tmp_path / "two", key) as two:
            for verb, wanted in (("pause", "paused"), ("resume", "queued")):
                async with two.post(f"/v1/runs/{run}/{verb}") as response:
                    assert response.status == 200
                async with asyncio.timeout(LONG_LEASE_S / run_leases.RENEWALS / 2):
                    while (await view(two, run)).state != wanted:  # noqa: ASYNC110
                        await asyncio.sleep(0.1)
        await store.close()
