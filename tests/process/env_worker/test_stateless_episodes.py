"""Episodes of one quick turn wait for the policy's words without a process, once that is known to be safe."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from tests.support.crowd import below
from tests.support.forked_hosts import hosted
from tests.support.hosting import Player, observed, refused
from tests.support.interacting import spec
from tests.support.leaving import LEFTOVERS
from tests.support.patience import PATIENCE_S, several_waits

from warren_env_worker.host.forked.stateless.trial import N_EPISODES, N_REPEATS
from warren_env_worker.host.host import Host
from warren_env_worker.host.protocol import Observed
from warren_schemas.episode import FailureKind, TaskRef

ENVIRONMENTS = "tests.support.waiting_turns"
N_AT_ONCE = 12
pytestmark = several_waits


async def reset(host: Host, seed: int = 1, index: int = 0) -> Player:
    player = Player(host, spec("quick", seed=seed, task=TaskRef(index=index)))
    await observed(player.reset())
    return player


async def ended(player: Player, action: str = "") -> Observed:
    answer = await observed(player.step(action))
    player.host.close(player.slot)
    return answer


async def pids_at_once(host: Host) -> list[float]:
    """Where episodes are played that all live at once."""
    players = await asyncio.gather(*(reset(host, seed) for seed in range(N_AT_ONCE)))
    answers = await asyncio.gather(*(ended(player) for player in players))
    return [answer.metrics["pid"] for answer in answers]


@asynccontextmanager
async def trusted(class_name: str = "Quick") -> AsyncGenerator[Host]:
    """A host whose episodes share processes by now."""
    async with hosted(f"{ENVIRONMENTS}:{class_name}") as host, asyncio.timeout(PATIENCE_S):
        while len(set(await pids_at_once(host))) == N_AT_ONCE:
            pass
        yield host


async def test_episodes_that_wait_have_no_process() -> None:
    async with trusted() as host:
        players = [await reset(host, seed) for seed in range(3 * N_AT_ONCE)]
        answers = [await ended(player) for player in players]
        assert len({answer.metrics["pid"] for answer in answers}) < N_AT_ONCE
        assert len(below()) < len(players)


async def test_chance_is_the_same_as_in_a_process_of_its_own() -> None:
    async with hosted(f"{ENVIRONMENTS}:Quick") as host:
        before = [await ended(await reset(host, seed)) for seed in range(3)]
    async with trusted() as host:
        players = [await reset(host, seed) for seed in range(3)]
        after = [await ended(player) for player in players]
    assert [a.metrics["chance"] for a in before] == [a.metrics["chance"] for a in after]


@pytest.mark.parametrize("class_name", ["Clocked", "Printing", "Closing"])
async def test_who_could_tell_the_difference_keeps_a_process(class_name: str) -> None:
    async with hosted(f"{ENVIRONMENTS}:{class_name}") as host:
        for _ in range(2 * (N_EPISODES + N_REPEATS) // N_AT_ONCE):
            assert len(set(await pids_at_once(host))) == N_AT_ONCE


async def test_what_is_printed_has_the_name_of_its_episode(
    capfd: pytest.CaptureFixture[str],
) -> None:
    async with hosted(f"{ENVIRONMENTS}:Printing") as host:
        for begin in range(0, N_EPISODES + N_REPEATS, N_AT_ONCE):
            indices = range(begin, begin + N_AT_ONCE)
            players = await asyncio.gather(*(reset(host, index=index) for index in indices))
            await asyncio.gather(*(ended(player) for player in players))
    printed = capfd.readouterr().err
    for index in range(N_EPISODES + N_REPEATS):
        assert f"train {index}] said {index}\n" in printed


async def test_an_episode_that_goes_on_after_all_is_played_to_its_end() -> None:
    async with trusted() as host:
        players = [await reset(host, seed) for seed in range(N_AT_ONCE)]
        for _ in range(3):
            answers = await asyncio.gather(*(observed(player.step("more")) for player in players))
            assert not any(answer.is_over for answer in answers)
        answers = await asyncio.gather(*(ended(player) for player in players))
        assert [answer.reward for answer in answers] == [4.0] * N_AT_ONCE
        assert len(set(await pids_at_once(host))) == N_AT_ONCE


@pytest.mark.parametrize(("deed", "kind"), [
    ("raise", FailureKind.ENVIRONMENT_ERROR), ("exit", FailureKind.ENVIRONMENT_CRASHED),
])  # fmt: skip
async def test_a_failure_costs_its_own_episode_alone(deed: str, kind: FailureKind) -> None:
    async with trusted() as host:
        guilty, *others = await asyncio.gather(*(reset(host, seed) for seed in range(N_AT_ONCE)))
        failing = asyncio.ensure_future(refused(guilty.step(deed)))
        answers = await asyncio.gather(*(ended(player) for player in others))
        refusal = await failing
        assert refusal.kind is kind
        assert [answer.reward for answer in answers] == [1.0] * len(others)


async def test_an_episode_that_begins_beside_a_failure_is_played_to_its_end() -> None:
    """From then on it has a process to itself."""
    async with trusted() as host:
        guilty = await reset(host)
        failing = asyncio.ensure_future(refused(guilty.step("exit")))
        players = await asyncio.gather(*(reset(host, seed) for seed in range(N_AT_ONCE)))
        answers = await asyncio.gather(*(ended(player) for player in players))
        assert (await failing).kind is FailureKind.ENVIRONMENT_CRASHED
        assert [answer.reward for answer in answers] == [1.0] * len(players)


@pytest.mark.parametrize(("deed", "leftover"), [(d, told) for d, (_, told) in LEFTOVERS.items()])
async def test_who_leaves_something_behind_has_its_process_replaced(
    deed: str, leftover: str, capfd: pytest.CaptureFixture[str]
) -> None:
    async with trusted() as host:
        left = (await ended(await reset(host), deed)).metrics["pid"]
        assert left not in await pids_at_once(host)
    assert leftover in capfd.readouterr().err


async def test_nobody_waits_for_long_behind_a_slow_step(tmp_path: Path) -> None:
    go_on = tmp_path / "go on"
    async with trusted() as host:
        slow, *others = await asyncio.gather(*(reset(host, seed) for seed in range(N_AT_ONCE)))
        step = asyncio.ensure_future(ended(slow, f"wait:{go_on}"))
        await asyncio.gather(*(ended(player) for player in others))
        assert not step.done()
        go_on.touch()
        assert (await step).reward == 1.0


async def test_who_is_dropped_disturbs_nobody() -> None:
    async with trusted() as host:
        players = await asyncio.gather(*(reset(host, seed) for seed in range(N_AT_ONCE)))
        dropped = [asyncio.ensure_future(player.step("")) for player in players[::2]]
        await asyncio.sleep(0)  # they are asked
        for player in players[::2]:
            host.close(player.slot)
        answers = await asyncio.gather(*(ended(player) for player in players[1::2]))
        assert [answer.reward for answer in answers] == [1.0] * len(answers)
        await pids_at_once(host)
    for step in dropped:
        step.cancel()
