"""What agents that are programs leave behind: nothing, however they and their workers end."""

import asyncio
import os
import signal

from tests.support.hosting import Player, child_pids, hosting, observed, refused
from tests.support.interacting import spec
from tests.support.patience import PATIENCE_S
from tests.support.processes import until_dead

from warren_env_worker.host.host import Host
from warren_schemas.episode import FailureKind

LINGERS = "tests.support.agents:Lingers"


async def begun(host: Host) -> tuple[Player, list[int]]:
    """An episode whose program has asked, and the processes of that."""
    player = Player(host, spec("lingers"))
    shown = await observed(player.reset())
    return player, [int(pid) for pid in shown.messages[-1][1].split()]


async def test_a_program_s_end_is_not_held_up_by_what_it_left_in_the_background() -> None:
    async with hosting(LINGERS) as host:
        player, pids = await begun(host)
        async with asyncio.timeout(PATIENCE_S):
            ended = await observed(player.step("?"))
            assert (ended.reward, ended.is_over) == (0.5, True)
            for pid in pids:
                await until_dead(pid)


async def test_a_closed_episode_leaves_no_program() -> None:
    async with hosting(LINGERS) as host:
        player, pids = await begun(host)
        host.close(player.slot)
        for pid in pids:
            await until_dead(pid)


async def test_a_killed_worker_leaves_no_program() -> None:
    async with hosting(LINGERS) as host:
        _, pids = await begun(host)
        for child in child_pids():
            os.kill(child, signal.SIGKILL)
        for pid in pids:
            await until_dead(pid)


async def test_a_program_that_there_is_not_says_so() -> None:
    async with hosting("tests.support.agents:Missing") as host:
        failure = await refused(Player(host, spec("missing")).reset())
    assert failure.kind is FailureKind.ENVIRONMENT_ERROR
    assert "no-such-program can't be started: No such file or directory" in failure.reason
