"""Env workers and processes of `textarena` that are killed while episodes and a run are at it: no group is lost."""

from pathlib import Path

import pytest
from tests.ecosystems.killed_worker import TwoWorkers
from tests.ecosystems.textarena.test_textarena import CLASS, GUESSES, installed
from tests.ecosystems.whole_run import WholeRun, kill_foreign_processes, play_through_loss
from tests.support.interacting import spec
from tests.support.patience import several_waits
from tests.support.private_rabbit import PrivateRabbit

__all__ = ["installed"]
HELD = "tests.ecosystems.held:HeldTextArena"
pytestmark = [pytest.mark.ecosystem_all, pytest.mark.server]
CONFIG = {"game": "GuessTheNumber-v0"}


@pytest.mark.shows("TextArena", "env worker killed")
async def test_a_killed_env_worker_costs_nothing(
    private_rabbit: PrivateRabbit, tmp_path: Path
) -> None:
    of = spec("textarena", environment_config=CONFIG, max_turns=50)
    workers = TwoWorkers(private_rabbit, tmp_path, CLASS, n_episodes=1)
    assert len(await workers.rewards(of, lambda item: GUESSES[item.turn])) == 1


@pytest.mark.shows("TextArena", "evaluation", "foreign process killed")
@several_waits
async def test_processes_that_are_killed_in_a_run_cost_no_group(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    run = WholeRun("textarena", HELD, CONFIG)
    await play_through_loss(run, tmp_path, kill_foreign_processes)
    assert "a process of textarena was lost" in capfd.readouterr().err
