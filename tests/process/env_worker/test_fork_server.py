"""Episodes in processes of their own: what user code does there is its own affair."""

import asyncio
import contextlib
import os
import random
import resource
import signal
import socket
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.crowd import below, resident_mib
from tests.support.hosting import Player, child_pids, hosted, observed, refused
from tests.support.interacting import spec
from tests.support.patience import PATIENCE_S, several_waits
from tests.support.processes import kill_and_wait, until_dead

from warren_env_worker.host.host import Host
from warren_env_worker.host.protocol import Observed, Refused
from warren_schemas.episode import FailureKind, TaskRef

TROUBLE = "warren_env_worker.environments.faulty"
CRASHED = FailureKind.ENVIRONMENT_CRASHED
N_FILES = 256
"""Far fewer than usual; so many episodes as used to need more take too long to begin."""


async def begun(host: Host, **config: object) -> Player:
    player = Player(host, spec("trouble", environment_config=config))
    await observed(player.reset())
    return player


async def count_becomes(n: int) -> None:
    """Wait until the hosts have so many processes."""
    while len(below()) != n:  # noqa: ASYNC110 - the kernel tells nobody but the parent
        await asyncio.sleep(0.02)


async def at_most(n: int) -> None:
    """Wait until the hosts have no more processes, those that wait for an episode among them."""
    while len(below()) > n:  # noqa: ASYNC110 - the kernel tells nobody but the parent
        await asyncio.sleep(0.02)


@pytest.mark.parametrize(
    ("how", "kind", "reason"),
    [
        ("raise", FailureKind.ENVIRONMENT_ERROR, "RuntimeError: trouble, as asked for"),
        ("exit", CRASHED, "in step(), its process ended with exit code 7"),
        ("segfault", CRASHED, "in step(), its process was killed by SIGSEGV"),
    ],
)
async def test_a_crash_costs_its_own_episode_and_nobody_is_rebuilt(
    how: str, kind: FailureKind, reason: str
) -> None:
    async with hosted(f"{TROUBLE}:Crash") as host:
        bystander = await begun(host, rate=0.0)
        before = set(below())
        guilty = await begun(host, rate=1.0, how=how)
        refusal = await refused(guilty.step("a"))
        assert refusal.kind is kind
        assert reason in refusal.reason
        await observed(bystander.step("a"))
        assert before <= set(below())


async def test_a_hang_is_killed_with_all_that_it_started() -> None:
    async with hosted(f"{TROUBLE}:Hang") as host:
        player = await begun(host, rate=1.0)
        refusal = await refused(player.step("a"))
        assert refusal.kind is FailureKind.ENVIRONMENT_TIMEOUT
        told, _, place = refusal.reason.partition("; it waits at ")
        assert told == "in step(), a call took longer than 3 s"
        assert place.endswith("in misbehave: time.sleep(3600)")
        await asyncio.wait_for(count_becomes(1), PATIENCE_S)


async def test_memory_is_limited() -> None:
    async with hosted(f"{TROUBLE}:Leak") as host:
        player = await begun(host, rate=1.0)
        refusal = await refused(player.step("a"))
        assert "MemoryError" in refusal.reason or refusal.kind is CRASHED


async def test_what_is_printed_is_cut_and_disturbs_nobody(
    capfd: pytest.CaptureFixture[str],
) -> None:
    async with hosted(f"{TROUBLE}:Flood") as host:
        player = await begun(host, rate=1.0, turns=2)
        await observed(player.step("a"))
        await observed(player.step("a"))
    printed = capfd.readouterr()
    assert printed.out == ""
    assert "flood flood" in printed.err
    assert "more output of this episode is dropped" in printed.err
    assert len(printed.err) < 100_000


async def test_an_episode_whose_process_was_killed_between_turns_is_rebuilt() -> None:
    async with hosted(f"{TROUBLE}:Sleep") as host:
        player = await begun(host, rate=0.0)
        await observed(player.step("a"))
        (server,) = child_pids()[:1]
        kill_and_wait(list({*below()} - {server}))
        await asyncio.wait_for(count_becomes(1), PATIENCE_S)
        assert (await observed(player.step("a"))).reward is not None


def channels(pid: int) -> set[str]:
    """Its sockets that a supervisor takes for a conversation: all but that over which episodes ask for host services."""
    rows = [line.split() for line in Path("/proc/net/unix").read_text().splitlines()[1:]]
    asking = {f"socket:[{row[6]}]" for row in rows if int(row[4]) == socket.SOCK_SEQPACKET}
    return {name for name in open_files(pid) if name.startswith("socket:")} - asking


def open_files(pid: int) -> Iterator[str]:
    """But for those that it closes meanwhile."""
    for link in Path(f"/proc/{pid}/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):
            yield os.readlink(link)


async def test_what_an_episode_forked_does_not_hide_that_all_of_them_are_gone() -> None:
    async with hosted("tests.support.environments:Managing") as host:
        player = Player(host, spec("managing"))
        await observed(player.reset())
        server, *others = below()
        assert len(others) == 2
        assert channels(server)
        assert not any(channels(server) & channels(pid) for pid in others)
        os.kill(server, signal.SIGSTOP)
        step = asyncio.ensure_future(player.step("a"))
        for _ in range(10):
            await asyncio.sleep(0)  # the frame is on its way
        os.kill(server, signal.SIGKILL)
        assert (await refused(step)).kind is CRASHED
        for pid in others:
            await until_dead(pid)
        await observed(Player(host, spec("managing")).reset())


async def test_the_usual_limit_of_open_files_does_not_limit_episodes() -> None:
    usual = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (N_FILES, usual[1]))
    try:
        async with hosted(f"{TROUBLE}:Sleep") as host:
            for _ in range(N_FILES // 5 + 10):
                await begun(host, rate=0.0)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, usual)


async def test_who_dies_just_before_it_is_closed_takes_nobody_with_it() -> None:
    async with hosted(f"{TROUBLE}:Sleep") as host:
        dying = await begun(host, rate=0.0)
        server, doomed = below()
        bystander = await begun(host, rate=0.0)
        os.kill(server, signal.SIGSTOP)  # so that it reads of the closing first
        host.close(dying.slot)
        for _ in range(10):
            await asyncio.sleep(0)  # the frame is on its way
        kill_and_wait([doomed])
        os.kill(server, signal.SIGCONT)
        await observed(bystander.step("a"))
        await asyncio.wait_for(count_becomes(2), PATIENCE_S)
        assert child_pids() == [server]


async def test_what_shows_something_else_when_rebuilt_is_not_replayable() -> None:
    async with hosted(f"{TROUBLE}:Nondeterministic") as host:
        player = await begun(host, rate=0.0)
        refusal = await refused(player.moved_to(host).step("a"))
        assert refusal.kind is FailureKind.NOT_REPLAYABLE


async def test_a_dropped_episode_is_ended_even_while_it_is_at_work() -> None:
    async with hosted(f"{TROUBLE}:Hang") as host:
        player = await begun(host, rate=1.0)
        step = asyncio.ensure_future(player.step("a"))
        await asyncio.wait_for(count_becomes(3), PATIENCE_S)
        host.close(player.slot)
        await asyncio.wait_for(count_becomes(1), PATIENCE_S)
        step.cancel()


async def test_who_answers_while_tasks_are_loaded_was_not_silent() -> None:
    async with hosted("tests.support.environments:Filed") as host:
        train = [Player(host, spec("filed")) for _ in range(3)]
        for player in train:
            await observed(player.reset())
        of_other_tasks = Player(host, spec("filed", task=TaskRef(index=0, split="eval")))
        answers = await asyncio.gather(
            *(player.step("a") for player in train), of_other_tasks.reset()
        )
        assert [type(answer) for answer in answers] == [Observed] * 4


async def test_the_host_says_which_code_it_runs() -> None:
    async with hosted(f"{TROUBLE}:Sleep") as first, hosted(f"{TROUBLE}:Hang") as second:
        assert first.description
        assert second.description
        assert len(first.description.code) == 16
        assert first.description.code == second.description.code


N_EPISODES = 1000
N_AT_ONCE = 24
HOSTILE = ("Crash", "Hang", "Leak", "Flood", "Nondeterministic")


@several_waits
async def test_a_thousand_episodes_with_hostile_ones_among_them() -> None:
    """Every healthy one ends well, every failure is typed, and nothing is left behind."""
    rng = random.Random(0)
    fates: Counter[str] = Counter()
    async with hosted(f"{TROUBLE}:Sleep") as healthy, asyncio.TaskGroup() as group:
        bad = [await group_host(group, f"{TROUBLE}:{name}") for name in HOSTILE]
        await whole(healthy, rate=0.0, turns=1)
        before_mib = resident_mib(child_pids())
        slots = asyncio.Semaphore(N_AT_ONCE)

        async def play(number: int) -> None:
            async with slots:
                if number % 25:
                    assert await whole(healthy, turns=2, rate=0.01) == "well"
                else:
                    fates[await whole(rng.choice(bad)[0], turns=2, rate=0.7)] += 1

        async with asyncio.TaskGroup() as episodes:
            for number in range(N_EPISODES):
                episodes.create_task(play(number))
        await asyncio.wait_for(at_most(1 + len(HOSTILE) + 2 * N_AT_ONCE), PATIENCE_S)
        after_mib = resident_mib(child_pids())
        for _, task in bad:
            task.cancel()
    assert fates["crashed"] + fates["timeout"] + fates["error"] > 0
    assert after_mib < before_mib + 64


async def group_host(group: asyncio.TaskGroup, reference: str) -> tuple[Host, "asyncio.Task[None]"]:
    host = Host(reference)
    task = group.create_task(host.run(), name=reference)
    await host.start()
    return host, task


async def whole(host: Host, **config: object) -> str:
    """Play an episode to its end; how it ended."""
    player = Player(host, spec("trouble", environment_config=config))
    answer = await player.reset()
    while isinstance(answer, Observed) and not answer.is_over:
        answer = await player.step("a")
    host.close(player.slot)
    if isinstance(answer, Refused):
        return answer.kind.value.removeprefix("environment_")
    return "well"


async def test_what_is_closed_in_the_middle_of_a_call_is_answered() -> None:
    """Else the host would hold the request, and take its child for busy and then for stuck, for ever."""
    async with hosted(f"{TROUBLE}:Hang") as host:
        player = await begun(host, rate=1.0)
        step = asyncio.ensure_future(player.step("a"))
        await asyncio.sleep(0)  # it is on its way to the host before it is closed
        host.close(player.slot)
        assert (await refused(step)).reason == "its episode was closed meanwhile"
