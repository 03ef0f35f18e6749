"""Trials of Harbor whose env worker or process is killed in their middle, alone and in a run."""

import os
import signal
from pathlib import Path

import pytest
from tests.ecosystems.harbor.serving import CLASS, episode, installed, shell
from tests.ecosystems.harbor.task_folders import write_task
from tests.ecosystems.killed_worker import TwoWorkers
from tests.ecosystems.whole_run import WholeRun, once_one_waits
from tests.support.hosting import child_pids, hosting
from tests.support.interacting import spec
from tests.support.patience import several_waits
from tests.support.private_rabbit import PrivateRabbit
from tests.support.processes import children, until_dead

from warren_env_worker.host.protocol import Observed, Refused
from warren_schemas.episode import FailureKind

__all__ = ["installed"]
pytestmark = [pytest.mark.ecosystem_all, pytest.mark.server, several_waits]
EVEN = """\
#!/bin/bash
said=$(cat /app/answer.txt); echo "${#said}" > /logs/verifier/length
case "$said" in e*) echo 1 ;; *) echo 0 ;; esac > /logs/verifier/reward.txt
"""


def fork_servers(others: set[int]) -> list[int]:
    """Of the processes that began since then."""
    return [pid for child in {*child_pids()} - others for pid in children(child)]


@pytest.mark.shows("Harbor", "env worker killed")
async def test_a_killed_env_worker_costs_nothing(
    private_rabbit: PrivateRabbit, tmp_path: Path
) -> None:
    """Its commands are run again, in another box."""
    write_task(tmp_path / "tasks")
    said = [shell("echo 7 > answer.txt"), shell("cat answer.txt"), shell("ls"), "Done."]
    of = spec("harbor", environment_config={"path": "tasks"})
    allowed = {"data_root": str(tmp_path)}
    workers = TwoWorkers(private_rabbit, tmp_path, CLASS, allowed, turn=2, n_episodes=1)
    assert await workers.rewards(of, lambda item: said[item.turn]) == {1.0}


async def test_what_shows_something_else_when_it_is_run_again_fails(tmp_path: Path) -> None:
    async with hosting(CLASS) as lost:
        player = episode(lost, write_task(tmp_path))
        await player.reset()
        await player.step(shell("date +%N"))
        async with hosting(CLASS) as other:
            answer = await player.moved_to(other).step("Done.")
    assert isinstance(answer, Refused), answer
    assert answer.kind is FailureKind.NOT_REPLAYABLE


@pytest.mark.shows("Harbor", "retries")
async def test_a_killed_process_of_harbor_costs_nothing(tmp_path: Path) -> None:
    """Its commands are run again in another box, and nothing of its own is left."""
    folder, others = write_task(tmp_path), {*child_pids()}
    async with hosting(CLASS) as host:
        player = episode(host, folder)
        await player.reset()
        await player.step(shell("echo 7 > answer.txt"))
        (server,) = fork_servers(others)
        (trial,) = children(server)
        box = [pid for child in children(trial) for pid in (child, *children(child))]
        assert box
        os.kill(trial, signal.SIGKILL)
        answer = await player.step(shell("cat answer.txt"))
        for pid in box:
            await until_dead(pid)
    assert isinstance(answer, Observed), answer
    assert answer.messages[-1][1] == "7\n"


@pytest.mark.shows("Harbor", "evaluation", "foreign process killed", "retries")
async def test_processes_that_are_killed_in_a_run_cost_no_episode(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """Trials of a group that are killed once the policy has spoken get the recorded answers in a new process, and go on."""
    waiting = tmp_path / "waiting"
    waiting.mkdir()
    for split, more in (("train", f"; wait in {waiting}"), ("test", "")):
        write_task(tmp_path / "tasks" / split, instruction=f"even or odd: 4{more}", tests=EVEN)
    config = {"path": str(tmp_path / "tasks" / "{split}"), "agent": "one_word:OneWord"}
    run = WholeRun("harbor", CLASS, config, evaluation_split="test")
    await run.play(tmp_path, once_one_waits(waiting))
    assert "the process of harbor was lost; the host asks again" in capfd.readouterr().err
