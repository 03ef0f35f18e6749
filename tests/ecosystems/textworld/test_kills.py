"""Env workers and processes of `textworld` that are killed while episodes and a run are at it: no group is lost."""

from pathlib import Path

import pytest
from tests.ecosystems.killed_worker import TwoWorkers
from tests.ecosystems.textworld.test_textworld import (
    CLASS,
    SIMPLE,
    episode,
    home,
    shown,
    way_to_win,
)
from tests.ecosystems.whole_run import WholeRun, kill_foreign_processes, play_through_loss
from tests.support.hosting import hosting
from tests.support.interacting import spec
from tests.support.patience import several_waits
from tests.support.private_rabbit import PrivateRabbit

__all__ = ["home"]
HELD = "tests.ecosystems.held:HeldTextWorld"
pytestmark = [pytest.mark.ecosystem_all, pytest.mark.server]


@pytest.mark.shows("TextWorld", "env worker killed")
async def test_a_killed_env_worker_costs_nothing(
    private_rabbit: PrivateRabbit, tmp_path: Path, home: Path
) -> None:
    async with hosting(CLASS) as host:
        commands = way_to_win(home, (await shown(episode(host)))[0])
    of = spec("textworld", environment_config=SIMPLE, max_turns=100)
    workers = TwoWorkers(private_rabbit, tmp_path, CLASS, n_episodes=1)
    assert await workers.rewards(of, lambda item: commands[item.turn]) == {1.0}


@pytest.mark.shows("TextWorld", "evaluation", "foreign process killed")
@several_waits
async def test_processes_that_are_killed_in_a_run_cost_no_group(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    coins = {"challenge": "tw-coin_collector", "settings": {"level": 1}, "games": 2}
    run = WholeRun("textworld", HELD, coins, evaluation_split="test")
    await play_through_loss(run, tmp_path, kill_foreign_processes)
    assert "a process of textworld was lost" in capfd.readouterr().err
