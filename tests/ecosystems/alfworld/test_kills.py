"""Env workers and processes of `alfworld` that are killed while episodes and a run are at it: no group is lost."""

from pathlib import Path

import pytest
from tests.ecosystems.alfworld.installed import CLASS, home
from tests.ecosystems.alfworld.test_alfworld import played, ways
from tests.ecosystems.killed_worker import TwoWorkers
from tests.ecosystems.whole_run import WholeRun, kill_foreign_processes, play_through_loss
from tests.support.hosting import hosting
from tests.support.interacting import spec
from tests.support.patience import several_waits
from tests.support.private_rabbit import PrivateRabbit

__all__ = ["home"]
HELD = "tests.ecosystems.held:HeldAlfWorld"
pytestmark = [pytest.mark.ecosystem_all, pytest.mark.server]


@pytest.mark.shows("ALFWorld", "env worker killed")
async def test_a_killed_env_worker_costs_nothing(
    private_rabbit: PrivateRabbit, tmp_path: Path
) -> None:
    async with hosting(CLASS) as host:
        commands = await ways(host, index=0)
    workers = TwoWorkers(private_rabbit, tmp_path, CLASS, n_episodes=6)
    of = spec("alfworld", **played(0))
    assert await workers.rewards(of, lambda item: commands[item.turn]) == {1.0}


@pytest.mark.shows("ALFWorld", "evaluation", "foreign process killed")
@several_waits
async def test_processes_that_are_killed_in_a_run_cost_no_group(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    games = {"games": 2, "task_types": ["look_at_obj_in_light"]}
    run = WholeRun("alfworld", HELD, games, evaluation_split="valid_unseen")
    await play_through_loss(run, tmp_path, kill_foreign_processes)
    assert "a process of alfworld was lost" in capfd.readouterr().err
