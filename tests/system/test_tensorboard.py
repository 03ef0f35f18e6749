"""TensorBoard itself, on the files that we write: it starts, shows them, and is gone afterwards."""

import asyncio
import sys
from asyncio.subprocess import PIPE
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from tests.support.processes import until_dead

import warren
from warren.cli.commands.runs.tensorboard import served
from warren_schemas.config import TrainConfig
from warren_schemas.ids import RunId
from warren_schemas.tensorboard.about import About
from warren_schemas.tensorboard.files import Record, TensorBoardFiles
from warren_schemas.tensorboard.layout import LAYOUT

CONFIG = TrainConfig.model_validate(
    {"model": {"base": "warren/tiny"}, "environments": [{"name": "guess"}]}
)
ABOUT = About(
    run=RunId("run_0123456789ab0123456789abcdef"), name="guess", created_s=1.0, config=CONFIG
)


@pytest.fixture
def logdir(tmp_path: Path) -> Path:
    files = TensorBoardFiles(tmp_path / ABOUT.folder)
    files.introduce(ABOUT, known=())
    files.write([Record(2.0, 1, {"reward/mean": 0.5})], known=())
    files.close()
    return tmp_path


async def test_parity_row_60_tensorboard_shows_curves_config_hyperparameters_and_layout(
    logdir: Path,
) -> None:
    async with served(logdir, "127.0.0.1", 0) as (server, address):
        async with aiohttp.ClientSession(f"{address}/") as session:
            runs = await _get(session, "data/runs")
            points = await _get(
                session, f"data/plugin/scalars/scalars?run={ABOUT.folder}&tag=1_reward/mean"
            )
            layout = await _get(session, "data/plugin/custom_scalars/layout")
            text = await _get(session, f"data/plugin/text/text?run={ABOUT.folder}&tag=config")
            plugins = await _get(session, "data/plugins_listing")
        assert server.returncode is None
    assert server.returncode is not None
    assert runs == [ABOUT.folder]
    assert points == [[2.0, 1, 0.5]]
    assert [category["title"] for category in layout["category"]] == list(LAYOUT)
    assert "warren/tiny" in text[0]["text"]
    assert plugins["hparams"]["enabled"]


async def test_it_dies_with_whoever_shows_it(logdir: Path) -> None:
    shows = f"""if True:
        import asyncio
        from pathlib import Path
        from warren.cli.commands.runs.tensorboard import served

        async def main():
            async with served(Path({str(logdir)!r}), "127.0.0.1", 0) as (server, _):
                print(server.pid, flush=True)
                await asyncio.Event().wait()

        asyncio.run(main())
    """
    shown = await asyncio.create_subprocess_exec(sys.executable, "-c", shows, stdout=PIPE)
    assert shown.stdout is not None
    pid = int(await shown.stdout.readline())
    shown.kill()
    await shown.wait()
    await until_dead(pid)


async def test_a_port_that_is_taken_is_told_in_a_sentence(logdir: Path) -> None:
    async with served(logdir, "127.0.0.1", 0) as (_, address):
        port = int(address.rpartition(":")[2])
        with pytest.raises(warren.WarrenError, match="TensorBoard did not start") as refused:
            async with served(logdir, "127.0.0.1", port):
                pass
    assert "--port" in str(refused.value)


async def _get(session: aiohttp.ClientSession, path: str) -> "Any":
    async with session.get(path) as response:
        assert response.status == 200, path
        return await response.json(content_type=None)
