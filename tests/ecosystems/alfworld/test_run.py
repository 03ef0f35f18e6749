"""Whole runs on ALFWorld: an evaluation by type of task, and training whose fork server is killed in its middle."""

import os
import signal
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest
from tests.ecosystems.alfworld.installed import CLASS, fork_server, installed
from tests.support.brokers import eventually
from tests.support.hosting import child_pids
from tests.support.one_process import in_process, tiny_site
from tests.support.patience import several_waits
from tests.support.processes import children

from warren_broker.port import Broker
from warren_env_worker.environments.alfworld.environment import TASK_TYPES
from warren_env_worker.service import serve_env_worker
from warren_env_worker.settings import EnvWorkerSettings
from warren_schemas.config import TrainConfig
from warren_schemas.episode import Completed
from warren_schemas.operator_policy import TRUSTING

pytestmark = [pytest.mark.ecosystem_all, pytest.mark.server]
N_STEPS, N_EPISODES = 2, 12
"""Optimizer steps, and the episodes of each."""
CONFIG: dict[str, Any] = {
    "name": "household",
    "model": {"base": "warren/tiny"},
    "environments": [
        {
            "name": "alfworld",
            "config": {"games": 6},
            "evaluation_split": "valid_unseen",
            "max_turns": 3,
        }
    ],
    "sampling": {"max_tokens": 4},
    "evaluation": {"episodes": len(TASK_TYPES)},
    "limits": {"steps": 0},
}
TRAINED: dict[str, Any] = {
    **CONFIG,
    "model": {"base": "warren/tiny", "update": {"kind": "full"}},
    "algorithm": {"group_size": 2, "groups_per_step": 6, "max_staleness": 0},
    "limits": {"steps": N_STEPS, "episode_attempts": 1, "failed_groups": 1},
}


@pytest.fixture(autouse=True)
def home(tmp_path: Path) -> Generator[None]:
    with installed(tmp_path / "installed"):
        yield


async def env_worker(broker: Broker) -> None:
    settings = EnvWorkerSettings(environments=(f"alfworld={CLASS}",), only_named=True)
    await serve_env_worker(broker, settings, policy=TRUSTING)


@pytest.mark.shows("ALFWorld", "evaluation")
@several_waits
async def test_an_evaluation_has_a_row_for_each_type_of_task(tmp_path: Path) -> None:
    site = tiny_site(tmp_path / "home", lambda: in_process(tmp_path / "streams"))
    async with site.running(site.gpu_worker, env_worker) as client:
        report = await (await client.evaluate(CONFIG)).result()
    assert {row.category: row.scores.n_episodes for row in report.categories} == dict.fromkeys(
        TASK_TYPES, 1
    )
    assert report.scores.n_failed == 0
    assert report.scores.metrics["won"].mean == 0.0


@pytest.mark.shows("ALFWorld", "crash and replay")
@several_waits
async def test_a_fork_server_that_is_killed_in_a_run_costs_no_group(tmp_path: Path) -> None:
    site = tiny_site(tmp_path / "home", lambda: in_process(tmp_path / "streams"))
    async with site.running(site.gpu_worker, env_worker) as client:
        run = await client.train(TrainConfig.model_validate(TRAINED))
        await eventually(plays)
        os.kill(fork_server(), signal.SIGKILL)  # whichever episodes are there are played anew
        await run.result()
        played = [view async for view in run.trajectories()]
    trained = [view for view in played if view.fate == "trained"]
    assert {type(view.trajectory.outcome) for view in played} == {Completed}
    assert len(trained) == N_STEPS * N_EPISODES


async def plays() -> bool:
    """A process has an episode."""
    return any(children(server) for host in child_pids() for server in children(host))
