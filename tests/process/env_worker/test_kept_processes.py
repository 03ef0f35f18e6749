"""A process plays one episode after the other, as long as none leaves anything behind."""

import asyncio
import os
import signal

import pytest
from tests.process.env_worker.test_fork_server import count_becomes
from tests.support.crowd import below
from tests.support.hosting import Player, child_pids, hosted, observed, refused
from tests.support.interacting import spec
from tests.support.leaving import LEFTOVERS
from tests.support.patience import PATIENCE_S

from warren_env_worker.host.host import Host
from warren_env_worker.host.protocol import Answer
from warren_schemas.episode import FailureKind, TaskRef

ENVIRONMENTS = "tests.support.leaving"
N_EPISODES = 20
"""So many in a row are not all begun before the process of the one before is ready again."""


async def said(host: Host, action: str, seed: int = 1) -> Answer:
    player = Player(host, spec("leaver", seed=seed))
    await observed(player.reset())
    answer = await player.step(action)
    host.close(player.slot)
    return answer


async def process_of(host: Host, action: str = "") -> int:
    """Where an episode was played in which the policy says this."""
    answer = await observed(said(host, action))
    assert answer.is_over
    return int(answer.metrics["pid"])


async def test_a_process_is_kept_after_a_clean_end() -> None:
    async with hosted(f"{ENVIRONMENTS}:Leaver") as host:
        pids = [await process_of(host) for _ in range(N_EPISODES)]
        assert len(set(pids)) < N_EPISODES
        assert set(pids) <= set(below())


async def test_episodes_that_live_at_once_have_a_process_each() -> None:
    async with hosted(f"{ENVIRONMENTS}:Leaver") as host:
        await process_of(host)
        players = [Player(host, spec("leaver", seed=seed)) for seed in range(5)]
        for player in players:
            await observed(player.reset())
        answers = [await observed(player.step("")) for player in players]
        assert len({answer.metrics["pid"] for answer in answers}) == len(players)


async def test_an_episode_in_the_strict_way_has_a_fresh_process() -> None:
    async with hosted(f"{ENVIRONMENTS}:StrictLeaver") as host:
        pids = [await process_of(host) for _ in range(N_EPISODES)]
        assert len(set(pids)) == N_EPISODES
        await asyncio.wait_for(count_becomes(1), PATIENCE_S)


@pytest.mark.parametrize(("deed", "leftover"), [(d, told) for d, (_, told) in LEFTOVERS.items()])
async def test_who_leaves_something_behind_has_its_process_replaced(
    deed: str, leftover: str, capfd: pytest.CaptureFixture[str]
) -> None:
    async with hosted(f"{ENVIRONMENTS}:Leaver") as host:
        left = await process_of(host, deed)
        later = [await process_of(host) for _ in range(3)]
        assert left not in later
    assert leftover in capfd.readouterr().err


@pytest.mark.parametrize(("deed", "kind"), [
    ("raise", FailureKind.ENVIRONMENT_ERROR), ("exit", FailureKind.ENVIRONMENT_CRASHED),
])  # fmt: skip
async def test_who_fails_has_its_process_replaced(deed: str, kind: FailureKind) -> None:
    async with hosted(f"{ENVIRONMENTS}:Leaver") as host:
        used = {await process_of(host) for _ in range(3)}
        assert (await refused(said(host, deed))).kind is kind
        await asyncio.wait_for(count_becomes(len(used)), PATIENCE_S)
        left = set(below()) - set(child_pids())
        assert len(left) == len(used) - 1


async def test_after_so_many_episodes_a_process_is_replaced() -> None:
    async with hosted(f"{ENVIRONMENTS}:ShortLived") as host:
        pids = [await process_of(host) for _ in range(N_EPISODES)]
        assert max(pids.count(pid) for pid in pids) <= 3


async def test_a_late_import_of_installed_code_is_no_leftover() -> None:
    async with hosted(f"{ENVIRONMENTS}:Leaver") as host:
        pids = [await process_of(host, "import") for _ in range(N_EPISODES)]
        assert len(set(pids)) < N_EPISODES


async def test_global_chance_is_the_same_in_a_fresh_and_in_a_used_process() -> None:
    async with hosted(f"{ENVIRONMENTS}:Leaver") as host:
        shown, pids = list[str](), list[int]()
        for seed in (1, 2) * (N_EPISODES // 2):
            player = Player(host, spec("leaver", seed=seed))
            shown.append((await observed(player.reset())).digest)
            pids.append(int((await observed(player.step("draw"))).metrics["pid"]))
            host.close(player.slot)
    assert len(set(pids)) < N_EPISODES
    assert len(set(shown[::2])) == len(set(shown[1::2])) == 1
    assert shown[0] != shown[1]


@pytest.mark.parametrize("name", ["CrashingClose", "RaisingClose"])
async def test_who_waits_behind_a_close_that_fails_goes_on_elsewhere(name: str) -> None:
    async with hosted(f"{ENVIRONMENTS}:{name}") as host:
        pids = await asyncio.gather(*(process_of(host) for _ in range(4)))
        pids += [await process_of(host) for _ in range(4)]
        assert len(set(pids)) == len(pids)


async def test_who_was_given_a_process_that_dies_before_it_begins_goes_on_elsewhere() -> None:
    async with hosted(f"{ENVIRONMENTS}:Leaver") as host:
        idle = {await process_of(host) for _ in range(3)}
        for pid in idle:
            os.kill(pid, signal.SIGSTOP)
        player = Player(host, spec("leaver"))
        reset = asyncio.ensure_future(player.reset())
        for _ in range(10):
            await asyncio.sleep(0)  # the frame is on its way
        for pid in idle:
            os.kill(pid, signal.SIGKILL)
        await observed(reset)
        assert int((await observed(player.step(""))).metrics["pid"]) not in idle


async def test_a_dropped_episode_leaves_its_process_to_the_next_one() -> None:
    async with hosted(f"{ENVIRONMENTS}:Leaver") as host:
        for _ in range(N_EPISODES):
            player = Player(host, spec("leaver"))
            await observed(player.reset())
            host.close(player.slot)
        await process_of(host)
        assert len(below()) < N_EPISODES


async def test_processes_know_the_tasks_that_were_loaded_after_they_began() -> None:
    async with hosted(f"{ENVIRONMENTS}:Splitting") as host:
        for split in ("train", "test", "train", "test"):
            player = Player(host, spec("splitting", task=TaskRef(index=0, split=split)))
            assert (await observed(player.reset())).messages == [["user", split]]
            await observed(player.step(""))
            host.close(player.slot)
