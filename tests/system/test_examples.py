"""No example that trains within minutes raises an alarm: each is trained as a reader trains it, through real workers."""

from collections.abc import AsyncGenerator
from pathlib import Path

import pytest
import pytest_asyncio
import yaml
from tests.support.one_process import in_process, tiny_site
from tests.support.patience import whole_deployment

from warren import Client
from warren_broker.port import Broker
from warren_env_worker.service import serve_env_worker
from warren_env_worker.settings import EnvWorkerSettings
from warren_schemas.events import WarningRaised
from warren_schemas.operator_policy import TRUSTING

pytestmark = [pytest.mark.storm, pytest.mark.thorough, whole_deployment]

FOLDER = Path(__file__).parents[2] / "examples"
WANTS_A_DOWNLOAD = {"arithmetic.yaml"}
"""Of a real language model; the same with a tiny one is an example of its own."""
TAKES_LONG = {"gomoku.yaml", "several_environments.yaml"}
"""A quarter of an hour and more on two cores: not for every change."""
TRIED = {p.name for p in FOLDER.glob("*.yaml")} - WANTS_A_DOWNLOAD - TAKES_LONG


async def env_worker(broker: Broker) -> None:
    await serve_env_worker(broker, EnvWorkerSettings(), policy=TRUSTING)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def client(tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[Client]:
    """Of the deployment that trains one after the other."""
    folder = tmp_path_factory.mktemp("site")
    site = tiny_site(folder, lambda: in_process(folder / "streams"))
    async with site.running(site.gpu_worker, env_worker) as client:
        yield client


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize("name", sorted(TRIED))
async def test_it_raises_no_alarm(client: Client, name: str) -> None:
    run = await client.train(yaml.safe_load((FOLDER / name).read_text()))
    told = [event.body async for event in run.events()]
    result = await run.result()
    assert [body.message for body in told if isinstance(body, WarningRaised) and body.alarm] == []
    assert result.reward_after is not None
