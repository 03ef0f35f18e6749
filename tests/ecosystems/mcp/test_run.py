"""A run on a real server that is killed in its middle goes on: no episode fails, and no group is lost."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from tests.ecosystems.mcp.serving import CLASS, http, installed, not_in_ci, servers
from tests.ecosystems.real_server import RealServer
from tests.support.one_process import in_process, tiny_site
from tests.support.patience import several_waits
from tests.support.question_files import write_lines

from warren_broker.port import Broker
from warren_env_worker.service import serve_env_worker
from warren_env_worker.settings import EnvWorkerSettings
from warren_schemas.config import TrainConfig
from warren_schemas.episode import Completed
from warren_schemas.operator_policy import TRUSTING

__all__ = ["installed", "servers"]
pytestmark = pytest.mark.server
N_EPISODES = 8
REWARD = "tests.unit.env_worker.rewards.functions:checksum"


async def env_worker(broker: Broker) -> None:
    settings = EnvWorkerSettings(environments=(f"mcp={CLASS}",), only_named=True)
    await serve_env_worker(broker, settings, policy=TRUSTING)


def config(server: RealServer, path: Path) -> TrainConfig:
    of: dict[str, Any] = {
        "servers": {"shop": http(server, tools=["price"])},
        "path": str(path),
        "instruction": "",
        "rewards": [{"kind": "function", "function": REWARD}],
        "patience_s": 120.0,
    }
    return TrainConfig.model_validate(
        {
            "name": "shop",
            "model": {"base": "warren/tiny", "update": {"kind": "full"}},
            "environments": [{"name": "mcp", "config": of}],
            "sampling": {"max_tokens": 4},
            "algorithm": {"group_size": 4, "groups_per_step": 2, "max_staleness": 0},
            "evaluation": {"episodes": 2},
            "limits": {"steps": 2, "episode_attempts": 1, "failed_groups": 1},
        }
    )


@not_in_ci
@pytest.mark.shows("MCP", "evaluation", "crash and replay")
@several_waits
async def test_a_server_that_is_killed_in_a_run_costs_no_group(
    tmp_path: Path, servers: dict[str, RealServer]
) -> None:
    questions = write_lines(tmp_path / "questions.jsonl", {"question": "What is tea?"})
    server = servers["stateless"]
    site = tiny_site(tmp_path / "home", lambda: in_process(tmp_path / "streams"))
    async with site.running(site.gpu_worker, env_worker) as client:
        run = await client.train(config(server, questions))
        server.kill()  # whichever episodes are there wait for it
        await asyncio.to_thread(server.start)
        await run.result()
        played = [view async for view in run.trajectories()]
    trained = [view for view in played if view.fate == "trained"]
    assert {type(view.trajectory.outcome) for view in played} == {Completed}
    assert len(trained) == 2 * N_EPISODES
