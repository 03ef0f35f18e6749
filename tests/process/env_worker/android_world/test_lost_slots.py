"""Servers that are killed, hang, lose their emulator or are started anew in the middle of an episode of `android_world`."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence

import pytest
from tests.support.environments import LIMIT_S
from tests.support.phones import Phone, Using, config, name_in, opened, phones, told, typed, using

from warren.environment import Context, NotReplayable
from warren_env_worker.environments.android_world.environment import AndroidWorld
from warren_env_worker.environments.android_world.server import AndroidFailed

Fault = Callable[[Phone], Awaitable[None]]


async def killed(phone: Phone) -> None:
    await phone.kill()


async def started_anew(phone: Phone) -> None:
    await phone.kill()
    await phone.start()


async def without_emulator(phone: Phone) -> None:
    await phone.switch(dead=True)


async def hanging(phone: Phone) -> None:
    await phone.switch(hangs="/execute_action")


async def failing_at_screens(phone: Phone) -> None:
    await phone.switch(fails="/screenshot")


async def taken_by_others(phone: Phone) -> None:
    """Who knows nothing of our locks."""
    await phone.ask("GET", "suite/reinitialize?n_task_combinations=1&seed=77")


FAULTS: tuple[Fault, ...] = (
    killed, started_anew, without_emulator, hanging, failing_at_screens, taken_by_others,
)  # fmt: skip


async def played_on(servers: Sequence[Phone]) -> Phone:
    """Which one has the episode."""
    for phone in servers:
        if any("initialize?" in line and "/task/" in line for line in await phone.asked()):
            return phone
    raise AssertionError("none has")


@pytest.mark.parametrize("fault", FAULTS)
async def test_an_episode_goes_on_where_its_server_is_lost(fault: Fault) -> None:
    answer_s = LIMIT_S if fault is hanging else 60.0
    async with phones(2) as servers, using(servers, answer_s=answer_s) as episode:
        await episode.do(opened("Contacts"))
        lost = await played_on(servers)
        (other,) = [phone for phone in servers if phone is not lost]
        await fault(lost)
        results = await episode.do(typed(name_in(episode.goal)), told("complete"))
        actions = [line for line in await other.asked() if "execute_action" in line]
    assert results[-1].reward == 1.0
    assert len(actions) == 2


async def test_a_server_that_is_lost_before_the_score_costs_nothing() -> None:
    async with phones(2) as servers, using(servers) as episode:
        await episode.do(opened("Contacts"), typed(name_in(episode.goal)))
        await (await played_on(servers)).kill()
        assert (await episode.do(told("complete")))[0].reward == 1.0


async def test_an_episode_whose_screens_differ_elsewhere_fails_by_name() -> None:
    async with phones(2) as servers, using(servers) as episode:
        await episode.do(opened("Contacts"))
        lost = await played_on(servers)
        (other,) = [phone for phone in servers if phone is not lost]
        await other.switch(flickers=True)
        await lost.kill()
        with pytest.raises(
            NotReplayable, match="restarted on another one, the task looks different"
        ):
            await episode.do(told("complete"))


async def test_a_lost_server_is_left_alone_and_the_others_play() -> None:
    async with phones(2) as servers:
        async with using(servers) as episode:
            lost = await played_on(servers)
            await lost.switch(dead=True)
            await episode.do(opened("Contacts"))
        await lost.switch()
        n_asked = len(await lost.asked())
        for seed in range(3):
            async with using(servers, seed=seed) as episode:
                await finished(episode)
        assert len(await lost.asked()) == n_asked


async def finished(episode: Using) -> None:
    results = await episode.do(opened("Contacts"), typed(name_in(episode.goal)), told("complete"))
    assert results[-1].reward == 1.0


@pytest.mark.parametrize("fault", [killed, without_emulator, failing_at_screens])
async def test_where_no_server_is_well_the_episode_fails_and_says_why(fault: Fault) -> None:
    async with phones(2) as servers:
        await asyncio.gather(*map(fault, servers))
        environment = AndroidWorld(**config(servers))
        with pytest.raises(AndroidFailed) as failure:
            await environment.reset(None, Context.derive(1))
        await environment.close()
    assert str(failure.value).startswith("no server can play; http://127.0.0.1:")
    assert all(phone.url in str(failure.value) for phone in servers)


async def test_a_server_that_dies_at_each_action_fails_the_episode() -> None:
    async with phones(1) as (phone,), using([phone]) as episode:
        await phone.switch(fails="/screenshot")
        with pytest.raises(AndroidFailed, match="its emulator shows no screen"):
            await episode.do(opened("Contacts"))


async def test_a_task_that_cannot_be_scored_fails_and_the_server_plays_on() -> None:
    async with phones(1) as servers:
        async with using(servers, "UnscorableTask") as episode:
            with pytest.raises(AndroidFailed, match="could not score UnscorableTask"):
                await episode.do(told("complete"))
        async with using(servers) as episode:
            await finished(episode)


async def test_a_task_that_is_not_torn_down_leaves_its_server_alone() -> None:
    async with phones(1) as servers:
        async with using(servers):
            await servers[0].switch(fails="/task/tear_down")
        await servers[0].switch()
        environment = AndroidWorld(**config(servers))
        with pytest.raises(AndroidFailed, match="the last task could not be torn down"):
            await environment.reset(None, Context.derive(1))
