"""Env workers and processes of `gymnasium` that are killed while episodes and a run are at it: no group is lost."""

from pathlib import Path
from typing import Any

import pytest
from tests.ecosystems.gymnasium.test_gymnasium import CLASS, LAKE, TO_THE_GOAL, installed
from tests.ecosystems.killed_worker import TwoWorkers
from tests.ecosystems.whole_run import WholeRun, kill_foreign_processes, play_through_loss
from tests.support.interacting import spec
from tests.support.patience import several_waits
from tests.support.private_rabbit import PrivateRabbit

__all__ = ["installed"]
ANEW = {"template": "{history}\n{observation}", "history": 1, "invalid": {"reward": -1.0}}
HELD = "tests.ecosystems.held:HeldGymnasium"
pytestmark = [pytest.mark.ecosystem_all, pytest.mark.server]


@pytest.mark.shows("Gymnasium", "env worker killed")
async def test_a_killed_env_worker_costs_nothing(
    private_rabbit: PrivateRabbit, tmp_path: Path
) -> None:
    of = spec("gymnasium", environment_config=LAKE)
    workers = TwoWorkers(private_rabbit, tmp_path, CLASS, n_episodes=1)
    assert await workers.rewards(of, lambda item: TO_THE_GOAL[item.turn]) == {1.0}


@pytest.mark.shows("Gymnasium", "evaluation", "foreign process killed")
@pytest.mark.parametrize("config", [LAKE, LAKE | {"text": ANEW}])
@several_waits
async def test_processes_that_are_killed_in_a_run_cost_no_group(
    config: dict[str, Any], tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    run = WholeRun("gymnasium", HELD, config)
    await play_through_loss(run, tmp_path, kill_foreign_processes)
    assert "a process of gymnasium was lost" in capfd.readouterr().err
