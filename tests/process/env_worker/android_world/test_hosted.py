"""The environment `android_world` on an env worker's host, whose processes are killed in the middle of episodes."""

import asyncio
import os
import signal
from collections.abc import AsyncGenerator
from typing import Any

import pytest
from tests.support.brokers import eventually
from tests.support.hosting import Player, child_pids, hosting
from tests.support.interacting import spec
from tests.support.phones import Phone, config, name_in, opened, phones, told, typed, using
from tests.support.processes import children, kill_and_wait

from warren.environment import Context
from warren_env_worker.environments.android_world.environment import AndroidWorld
from warren_env_worker.environments.android_world.server import AndroidFailed
from warren_env_worker.host.host import Host
from warren_env_worker.host.protocol import Observed, Refused
from warren_schemas.episode import FailureKind

CLASS = "warren_env_worker.environments.android_world.environment:AndroidWorld"


@pytest.fixture
async def phone() -> AsyncGenerator[Phone]:
    async with phones(1) as (phone,):
        yield phone


def episode(host: Host, phone: Phone, kind: str = "ContactsAddContact", **more: Any) -> Player:
    of = config([phone], kind, **more)
    return Player(host, spec("android_world", environment_config=of, max_turns=20))


async def observed(player: Player, *actions: str) -> list[Observed]:
    answers = [await player.reset(), *[await player.step(action) for action in actions]]
    assert all(isinstance(answer, Observed) for answer in answers), answers
    return [answer for answer in answers if isinstance(answer, Observed)]


async def is_judging(phone: Phone) -> bool:
    return any("/task/score" in asked for asked in await phone.asked())


def goal_of(first: Observed) -> str:
    return first.messages[-1][1].partition("\n")[0].removeprefix("Goal: ")


async def test_the_policy_sees_pictures_and_how_to_act(phone: Phone) -> None:
    async with hosting(CLASS) as host:
        player = episode(host, phone)
        (first,) = await observed(player)
        turns = [
            await player.step(action)
            for action in (opened("Contacts"), typed(name_in(goal_of(first))), told("complete"))
        ]
    assert first.messages[0][1].startswith("You use a phone to reach a goal.")
    assert '{"action_type": "open_app", "app_name": "Contacts"}' in first.messages[0][1]
    assert isinstance(turns[-1], Observed)
    assert (turns[-1].reward, turns[-1].is_over) == (1.0, True)


async def test_an_episode_whose_process_is_killed_frees_its_slot_and_is_tried_again(
    phone: Phone,
) -> None:
    async with hosting(CLASS) as host:
        player = episode(host, phone)
        await observed(player, opened("Contacts"))
        (child,) = child_pids()
        await phone.switch(holds="/task/score")
        step = asyncio.ensure_future(player.step(told("complete")))
        await eventually(lambda: is_judging(phone))
        kill_and_wait(children(child))
        crashed = await step
        await phone.switch()
        again = episode(host, phone)
        (first,) = await observed(again)
        turns = [
            await again.step(action)
            for action in (opened("Contacts"), typed(name_in(goal_of(first))), told("complete"))
        ]
    assert isinstance(crashed, Refused)
    assert (crashed.kind, crashed.is_retryable) == (FailureKind.ENVIRONMENT_CRASHED, True)
    assert isinstance(turns[-1], Observed)
    assert turns[-1].reward == 1.0


async def killed_with_a_contact(phone: Phone) -> None:
    """An episode that nobody plays on, nor closes."""
    async with hosting(CLASS) as host:
        player = episode(host, phone)
        await observed(player, opened("Contacts"), typed("Mallory"))
        (child,) = child_pids()
        kill_and_wait(children(child))


@pytest.mark.parametrize("has_other_suite", [False, True])
async def test_what_a_killed_episode_left_is_torn_down_before_another_begins(
    phone: Phone, has_other_suite: bool
) -> None:
    async with using([phone], "SystemWifiTurnOff") as clean:
        pass
    await killed_with_a_contact(phone)
    if has_other_suite:
        await phone.ask("GET", "suite/reinitialize")  # the suite that it starts with
    async with using([phone], "SystemWifiTurnOff") as after:
        assert after.first.images == clean.first.images
    told_since = await told_of_tasks(phone)
    contact, wifi = "ContactsAddContact", "SystemWifiTurnOff"
    assert told_since == [
        f"initialize {wifi}", f"tear_down {wifi}", f"initialize {contact}", f"tear_down {contact}",
        f"initialize {wifi}", f"tear_down {wifi}",
    ]  # fmt: skip


async def told_of_tasks(phone: Phone) -> list[str]:
    paths = [path for path in await phone.asked() if path.startswith("POST /task/")]
    queries = [path.removeprefix("POST /task/").partition("?task_type=") for path in paths]
    return [f"{what} {query.partition('&')[0]}" for what, _, query in queries]


async def test_a_task_that_was_left_and_cannot_be_torn_down_leaves_its_server_alone(
    phone: Phone,
) -> None:
    await killed_with_a_contact(phone)
    await phone.switch(fails="/task/tear_down")
    for fault in ({"fails": "/task/tear_down"}, {}):
        await phone.switch(**fault)
        environment = AndroidWorld(**config([phone], "SystemWifiTurnOff"))
        with pytest.raises(AndroidFailed, match="the last task could not be torn down"):
            await environment.reset(None, Context.derive(1))
    assert "initialize SystemWifiTurnOff" not in await told_of_tasks(phone)


async def test_an_env_worker_that_dies_frees_its_slot_and_another_goes_on(phone: Phone) -> None:
    async with hosting(CLASS) as lost:
        player = episode(lost, phone)
        first, _ = await observed(player, opened("Contacts"))
        for pid in child_pids():
            os.kill(pid, signal.SIGKILL)
        async with hosting(CLASS) as other:
            moved = player.moved_to(other)
            await moved.step(typed(name_in(goal_of(first))))
            last = await moved.step(told("complete"))
    assert isinstance(last, Observed)
    assert last.reward == 1.0


async def test_failures_have_a_kind_and_none_is_a_reward(phone: Phone) -> None:
    async with hosting(CLASS) as host:
        unset = await episode(host, phone, "RetroPlayingQueue").reset()
        strange = await episode(host, phone, task_family="games").reset()
        await phone.switch(dead=True)
        dead = await episode(host, phone).reset()
    assert isinstance(unset, Refused)
    assert (unset.kind, unset.is_retryable) == (FailureKind.ENVIRONMENT_ERROR, False)
    assert isinstance(strange, Refused)
    assert (strange.kind, strange.is_retryable) == (FailureKind.ENVIRONMENT_CONFIG, False)
    assert isinstance(dead, Refused)
    assert (dead.kind, dead.is_retryable) == (FailureKind.ENVIRONMENT_ERROR, True)
    assert "no server can play" in dead.reason
