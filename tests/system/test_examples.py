"""No example that trains within minutes raises an alarm: each is trained as a reader trains it, through real workers."""

from collections.abc import AsyncGenerator
from pathlib import Path

import pytest
import pytest_asyncio
import yaml
from tests.support.one_process import in_process, tiny_site
from tests.support.patience import whole_deployment
from tests.support.tutorial import block_with

from warren import Client
from warren_broker.port import Broker
from warren_env_worker.service import serve_env_worker
from warren_env_worker.settings import EnvWorkerSettings
from warren_schemas.events import WarningRaised
from warren_schemas.operator_policy import TRUSTING

pytestmark = [pytest.mark.storm, whole_deployment]

FOLDER = Path(__file__).parents[2] / "examples"
WANTS_A_DOWNLOAD = {"arithmetic.yaml"}
"""Of a real language model; the same with a tiny one is an example of its own."""
TAKES_LONG = {"gomoku.yaml", "several_environments.yaml"}
"""A quarter of an hour and more on two cores: not for every change."""
LEFT_OUT = WANTS_A_DOWNLOAD | TAKES_LONG
TRIED = {path.name for path in FOLDER.glob("*.yaml")} - LEFT_OUT | {"parity.yaml"}


def config_of(name: str) -> str:
    """As it stands; one is in docs/environments.md."""
    is_on_page = name == "parity.yaml"
    return block_with("name: parity\nmodel") if is_on_page else (FOLDER / name).read_text()


async def env_worker(broker: Broker) -> None:
    settings = EnvWorkerSettings(environments=("parity:Parity",))
    await serve_env_worker(broker, settings, policy=TRUSTING)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def client(tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[Client]:
    """Of the deployment that trains one after the other."""
    folder = tmp_path_factory.mktemp("site")
    (folder / "parity.py").write_text(block_with("class Parity"))
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(folder)  # pyright: ignore[reportUnknownMemberType]
        patch.setenv("PYTHONPATH", str(folder), prepend=":")
        site = tiny_site(folder, lambda: in_process(folder / "streams"))
        async with site.running(site.gpu_worker, env_worker) as client:
            yield client


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize("name", sorted(TRIED))
async def test_it_raises_no_alarm(client: Client, name: str) -> None:
    run = await client.train(yaml.safe_load(config_of(name)))
    told = [event.body async for event in run.events()]
    result = await run.result()
    assert [body.message for body in told if isinstance(body, WarningRaised) and body.alarm] == []
    assert result.reward_after is not None
