"""Env workers and processes of verifiers that are killed while episodes and a run are at it: no episode is lost."""

from pathlib import Path

import pytest
from tests.ecosystems.killed_worker import TwoWorkers
from tests.ecosystems.verifiers.test_verifiers import CLASSES, TASKSETS, installed, of_both
from tests.ecosystems.whole_run import WholeRun, once_one_waits
from tests.support.interacting import spec
from tests.support.patience import several_waits
from tests.support.private_rabbit import PrivateRabbit

__all__ = ["installed"]
pytestmark = [pytest.mark.ecosystem_all, pytest.mark.server]


@of_both("env worker killed")
async def test_a_killed_env_worker_costs_no_episode(
    private_rabbit: PrivateRabbit, tmp_path: Path, package: str
) -> None:
    of = spec(package, environment_config={"taskset": TASKSETS[package]})
    allowed = {"functions": [f"{TASKSETS[package]}:*"]}
    workers = TwoWorkers(private_rabbit, tmp_path, CLASSES[package], allowed, turn=1, n_episodes=1)
    assert await workers.rewards(of, lambda item: "one") == {4.0}


@of_both("evaluation", "foreign process killed", "retries")
@several_waits
async def test_processes_that_are_killed_in_a_run_cost_no_episode(
    tmp_path: Path, package: str, capfd: pytest.CaptureFixture[str]
) -> None:
    """Episodes of a group that are killed once the policy has spoken get the recorded answers in a new process, and go on."""
    waiting = tmp_path / "waiting"
    waiting.mkdir()
    of_splits = {"train": {"waits_in": str(waiting)}, "test": {}}
    config = {"taskset": TASKSETS[package], "split_arguments": of_splits}
    run = WholeRun(package, CLASSES[package], config, evaluation_split="test")
    await run.play(tmp_path, once_one_waits(waiting))
    assert f"the process of {package} was lost; the host asks again" in capfd.readouterr().err
