"""No example that trains within minutes raises an alarm: each is trained as a reader trains it, through real workers."""

from pathlib import Path

import pytest
import yaml
from tests.support.one_process import in_process, tiny_site
from tests.support.patience import whole_deployment
from tests.support.tutorial import block_with

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


@pytest.mark.parametrize("name", sorted(TRIED))
async def test_it_raises_no_alarm(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    (tmp_path / "parity.py").write_text(block_with("class Parity"))
    monkeypatch.syspath_prepend(tmp_path)  # pyright: ignore[reportUnknownMemberType]
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=":")
    site = tiny_site(tmp_path, lambda: in_process(tmp_path / "streams"))

    async def env_worker(broker: Broker) -> None:
        settings = EnvWorkerSettings(environments=("parity:Parity",))
        await serve_env_worker(broker, settings, policy=TRUSTING)

    async with site.running(site.gpu_worker, env_worker) as client:
        run = await client.train(yaml.safe_load(config_of(name)))
        told = [event.body async for event in run.events()]
        result = await run.result()
    assert [body.message for body in told if isinstance(body, WarningRaised) and body.alarm] == []
    assert result.reward_after is not None
