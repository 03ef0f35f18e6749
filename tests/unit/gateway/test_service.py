"""A whole gateway in this process: it starts, serves, says why it can't, and stops in good order."""

import asyncio
import stat
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
import pytest
from sqlmodel import Session
from tests.support.brokers import eventually
from tests.support.gateway import CONFIG
from tests.support.jobs import admit_all
from tests.support.patience import PATIENCE_S, STOP_S
from tests.support.processes import free_port

from warren_broker.port import Broker
from warren_broker.topology import WorkQueue
from warren_gateway.access.key import InvalidKey
from warren_gateway.api.listening import CannotListen, PortInUse
from warren_gateway.service import serve_gateway
from warren_gateway.settings import GatewaySettings
from warren_gateway.store.store import Store, StoreUnavailable
from warren_gateway.store.tables import Run
from warren_schemas.events import RunState
from warren_schemas.http import Health, QueueList, RunList, RunView
from warren_schemas.ids import RunId


@asynccontextmanager
async def serving(
    broker: Broker, settings: GatewaySettings
) -> AsyncGenerator[aiohttp.ClientSession]:
    """A client of a gateway that listens, with the key that the gateway made."""
    ready = asyncio.Event()
    serve = asyncio.create_task(serve_gateway(broker, settings, ready=ready))
    listening = asyncio.create_task(ready.wait())
    await asyncio.wait([serve, listening], return_when=asyncio.FIRST_COMPLETED)
    try:
        if serve.done():
            await serve
        url = f"http://{settings.host}:{settings.port}"
        headers = {"Authorization": f"Bearer {settings.key_file.read_text().strip()}"}
        async with aiohttp.ClientSession(url, headers=headers) as client:
            yield client
    finally:
        listening.cancel()
        serve.cancel()
        await asyncio.gather(serve, listening, return_exceptions=True)


@pytest.fixture
def settings(tmp_path: Path) -> GatewaySettings:
    return GatewaySettings(home=tmp_path / "home", port=free_port())


async def test_it_serves_with_the_key_it_made(broker: Broker, settings: GatewaySettings) -> None:
    async with serving(broker, settings) as client, client.get("/healthz") as response:
        assert Health.model_validate_json(await response.read()).status == "ok"
        async with client.get("/v1/runs") as answer:
            assert answer.status == 200


async def test_a_submitted_run_reaches_the_coordinator_and_outlives_a_restart(
    broker: Broker, settings: GatewaySettings
) -> None:
    async with serving(broker, settings) as client:
        async with client.post("/v1/runs", json={"config": CONFIG}) as response:
            run = (await response.json())["id"]
        async with client.get(f"/v1/runs/{run}/events") as response:
            lines = [await response.content.readline() for _ in range(3)]
        assert lines[1].strip() == b"event: state_changed"
    async with serving(broker, settings) as client:
        async with client.post(f"/v1/runs/{run}/cancel") as response:
            assert response.status == 200
        async with client.get(f"/v1/runs/{run}/events") as response, asyncio.timeout(PATIENCE_S):
            events = await response.text()  # ends with the run
        assert '"state":"cancelled"' in events
        async with client.get(f"/v1/runs/{run}") as response:
            view = RunView.model_validate_json(await response.read())
    assert view.state is RunState.CANCELLED


async def test_a_run_whose_queue_was_deleted_begins_again(
    broker: Broker, settings: GatewaySettings
) -> None:
    async with serving(broker, settings) as client:
        async with client.post("/v1/runs", json={"config": CONFIG}) as response:
            assert response.status == 201
        await admit(settings)
        answers = await its_answers(client)
        await broker.publish(answers, b"garbage", message_id="1")

        async def is_read() -> bool:
            return bool(await broker.dead_letters())

        async def is_there() -> bool:
            return await broker.depth(answers) is not None

        await eventually(is_read)
        await broker.delete(answers)
        await eventually(is_there)


async def admit(settings: GatewaySettings) -> None:
    store = await Store.open(settings.store_url)
    await store.transact(admit_all)
    await store.close()


async def its_answers(client: aiohttp.ClientSession) -> WorkQueue:
    """Where the trainer's answers to the only run come, once that is there."""
    found: list[str] = []

    async def is_found() -> bool:
        async with client.get("/v1/queues") as response:
            queues = QueueList.model_validate_json(await response.read()).queues
        found.extend(queue.name for queue in queues if queue.name.startswith("results."))
        return bool(found)

    await eventually(is_found)
    return WorkQueue(found[0])


@pytest.mark.slow
async def test_runs_that_only_a_newer_gateway_can_read_are_left_to_it(
    broker: Broker, settings: GatewaySettings, caplog: pytest.LogCaptureFixture
) -> None:
    runs: list[str] = []
    async with serving(broker, settings) as client:
        for _ in range(3):
            async with client.post("/v1/runs", json={"config": CONFIG}) as response:
                runs.append((await response.json())["id"])

    def make_newer(session: Session) -> None:
        session.get_one(Run, runs[0]).progress = {"key_of_tomorrow": 1}
        session.get_one(Run, runs[1]).config = {**CONFIG, "key_of_tomorrow": 1}
        admit_all(session)

    store = await Store.open(settings.store_url)
    await store.transact(make_newer)
    await store.close()

    async def are_left() -> bool:
        told = [f"{run} is left to a gateway that can read it" in caplog.text for run in runs]
        return told == [True, True, False]

    async with serving(broker, settings) as client:
        await eventually(are_left)
        async with client.get("/v1/runs") as response:
            views = {
                view.id: view for view in RunList.model_validate_json(await response.read()).runs
            }
        assert [views[RunId(run)].config is None for run in runs] == [False, True, False]
        async with client.get(f"/v1/runs/{runs[1]}/trajectories") as response:
            assert (response.status, (await response.json())["code"]) == (409, "newer_run")
        async with client.post(f"/v1/runs/{runs[2]}/cancel") as response:
            assert response.status == 200
        async with (
            client.get(f"/v1/runs/{runs[2]}/events") as response,
            asyncio.timeout(PATIENCE_S),
        ):
            assert '"state":"cancelled"' in await response.text()
    assert "archived no more" not in caplog.text


async def test_it_stops_soon_with_streams_open(broker: Broker, settings: GatewaySettings) -> None:
    async with asyncio.timeout(None) as stopping, serving(broker, settings) as client:
        async with client.post("/v1/runs", json={"config": CONFIG}) as response:
            run = (await response.json())["id"]
        followers = [await client.get(f"/v1/runs/{run}/events") for _ in range(5)]
        stopping.reschedule(asyncio.get_running_loop().time() + STOP_S)
    for follower in followers:
        follower.close()


async def test_a_port_in_use_is_named(broker: Broker, settings: GatewaySettings) -> None:
    other = settings.model_copy(update={"home": settings.home / "other"})
    async with serving(broker, settings):
        with pytest.raises(PortInUse, match=rf"port {settings.port} .*--port"):
            await serve_gateway(broker, GatewaySettings(home=other.home, port=settings.port))


async def test_an_address_that_is_not_ours_is_named(broker: Broker, tmp_path: Path) -> None:
    settings = GatewaySettings(home=tmp_path, host="192.0.2.1", port=free_port())
    with pytest.raises(CannotListen, match=r"192\.0\.2\.1"):
        await serve_gateway(broker, settings)


async def test_a_store_that_can_not_be_opened_is_named_without_its_password(
    broker: Broker, tmp_path: Path
) -> None:
    url = f"postgresql://ann:secret@127.0.0.1:{free_port()}/warren"
    with pytest.raises(StoreUnavailable, match=r"127\.0\.0\.1") as refused:
        await serve_gateway(broker, GatewaySettings(home=tmp_path, store_url=url))
    assert "secret" not in str(refused.value)


async def test_a_key_that_is_none_is_refused(broker: Broker, settings: GatewaySettings) -> None:
    with pytest.raises(InvalidKey):
        await serve_gateway(broker, settings.model_copy(update={"api_key": "hunter2"}))


async def test_what_it_writes_is_its_owners_alone(
    broker: Broker, settings: GatewaySettings
) -> None:
    async with serving(broker, settings):
        modes = {
            path.name: stat.S_IMODE(path.stat().st_mode)
            for path in [settings.home, settings.runs_dir, *settings.home.glob("warren.db*")]
        }
    assert len(modes) >= 3
    assert all(mode & 0o077 == 0 for mode in modes.values()), modes
