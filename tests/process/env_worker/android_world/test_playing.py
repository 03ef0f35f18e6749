"""The environment `android_world` on servers that keep to the real one's protocol, with a phone in place of an emulator."""

import asyncio
import base64
import io
from typing import Any

import pytest
from PIL import Image as Pillow
from tests.support.phones import config, name_in, opened, phones, told, typed, using

from warren.environment import ConfigError, Context, EpisodeTranscript, StepResult, TaskError
from warren_env_worker.environments.android_world.environment import AndroidWorld


async def test_a_task_is_done_and_scored_by_the_server() -> None:
    async with phones(1) as (phone,):
        async with using([phone]) as episode:
            assert episode.environment.category == "ContactsAddContact"
            *shown, last = await episode.do(
                opened("Contacts"), typed(name_in(episode.goal)), told("complete")
            )
        asked = [line.partition("?")[0] for line in await phone.asked()]
    assert (last.reward, last.done, last.metrics["complete"]) == (1.0, True, 1.0)
    assert [result.reward for result in shown] == [None, None]
    assert asked == [
        "GET /health", "POST /reset", "GET /screenshot", "GET /suite/reinitialize",
        "GET /task/goal", "POST /task/initialize", "GET /screenshot",
        *["GET /suite/task_length", "GET /task/goal", "POST /execute_action", "GET /screenshot"] * 2,
        "GET /suite/task_length", "GET /task/goal", "GET /task/score",
        "GET /suite/task_length", "GET /task/goal", "POST /task/tear_down",
    ]  # fmt: skip


async def test_a_task_is_called_as_androidworld_calls_it_where_its_seed_is_given() -> None:
    async with phones(1) as servers:
        of = config(servers, "SimpleQuestion", seed=7, combinations=2)
        for index, named in (
            (0, "SimpleQuestion_0"),
            (1, "SimpleQuestion_1"),
            (2, "SimpleQuestion_0"),
        ):
            environment = AndroidWorld(**of)
            await environment.reset(None, Context.derive(1, index=index))
            await environment.close()
            assert environment.task_id == named
        async with using(servers, "SimpleQuestion") as episode:
            assert episode.environment.task_id is None, "only its seed tells it from others"


async def test_places_in_the_picture_are_places_on_the_device() -> None:
    small = {"screen_width": 64}
    async with (
        phones(1, (128, 320)) as servers,
        using(servers, "SystemWifiTurnOff", **small) as episode,
    ):
        (image,) = episode.first.images
        picture = Pillow.open(io.BytesIO(base64.b64decode(image.base64)))
        assert (picture.size, image.media_type) == ((64, 160), "image/jpeg")
        assert "The screen, 64 x 160 pixels." in episode.first.content
        *_, beside, outside, right, last = await episode.do(
            opened("Settings"),
            '{"action_type": "click", "x": 33, "y": 79}',
            '{"action_type": "click", "x": 64, "y": 79}',
            '{"action_type": "click", "x": 31, "y": 79}',
            told("complete"),
        )
    assert words(outside) == "This is no action: x and y: the screen has 64 x 160 pixels"
    assert words(beside) == words(right) == ""
    assert last.reward == 1.0


async def test_an_answer_is_given_and_an_infeasible_task_is_told() -> None:
    async with phones(1) as servers:
        async with using(servers, "SimpleQuestion") as episode:
            name = episode.goal.removeprefix("How many letters has ").rstrip("?")
            answer = f'{{"action_type": "answer", "text": "{len(name)}"}}'
            assert (await episode.do(answer, told("complete")))[-1].reward == 1.0
        async with using(servers, "SimpleQuestion") as episode:
            (last,) = await episode.do(told("infeasible"))
    assert (last.reward, last.metrics["complete"]) == (0.0, 0.0)


async def test_an_episode_that_is_cut_has_nothing() -> None:
    async with phones(1) as servers, using(servers) as episode:
        await episode.do(opened("Contacts"), typed(name_in(episode.goal)))
        assert await episode.environment.score(EpisodeTranscript(())) == 0.0
        await episode.do(told("complete"))
        assert await episode.environment.score(EpisodeTranscript(())) is None


async def test_words_that_are_no_action_are_told_and_no_device_hears_of_them() -> None:
    async with phones(1) as servers, using(servers) as episode:
        n_asked = len(await servers[0].asked())
        answers = await episode.do("I am done.", '{"action_type": "click", "index": 3}', "")
        assert len(await servers[0].asked()) == n_asked
        (refused,) = await episode.do(opened("Nothing"))
    assert words(answers[0]) == "This is no action: expected one action as a JSON object"
    assert words(answers[1]) == "This is no action: x: Field required"
    assert words(refused) == "The device did not do this."
    assert refused.metrics == {
        "steps": 1.0, "invalid_actions": 3.0, "refused_actions": 1.0, "complete": 0.0,
    }  # fmt: skip


def words(result: StepResult) -> str:
    """Behind which the size of the screen stands."""
    assert isinstance(result.observation, list)
    (message,) = result.observation
    return message.content.rpartition("The screen,")[0].rstrip()


async def test_types_come_by_turns_and_a_seed_says_what_they_are_about() -> None:
    types = ["SystemWifiTurnOff", "ContactsAddContact"]

    async def goal(index: int, of_task: int, **more: Any) -> str:
        environment = AndroidWorld(**config(servers, task_types=types, **more))
        try:
            (first,) = await environment.reset(None, Context.derive(of_task, index=index))
            return first.content
        finally:
            await environment.close()

    async with phones(1) as servers:
        assert "Turn wifi off." in await goal(2, of_task=1)
        assert await goal(1, of_task=1) == await goal(1, of_task=1) != await goal(1, of_task=2)
        fixed = [await goal(index, index, seed=3, combinations=2) for index in (1, 3, 5)]
    assert fixed[0] == fixed[2] != fixed[1]


async def test_all_types_of_a_family_are_played_where_none_is_named() -> None:
    async with phones(1) as servers:
        of_family: dict[str, Any] = {"task_types": (), "task_family": "information_retrieval"}
        async with using(servers, index=3, **of_family) as episode:
            assert episode.environment.category == "SimpleQuestion"
        with pytest.raises(ConfigError, match="has no games"):
            await begun(AndroidWorld(**config(servers, task_family="games")))
        with pytest.raises(ConfigError, match="servers"):
            AndroidWorld(servers=[])


async def test_a_task_that_cannot_be_set_up_is_its_own_trouble_and_not_the_servers() -> None:
    async with phones(1) as servers:
        for kind in ("RetroPlayingQueue", "NoSuchTask"):
            with pytest.raises(TaskError, match=f"{kind} could not be set up on http"):
                await begun(AndroidWorld(**config(servers, kind)))
        async with using(servers) as episode:
            assert (await episode.do(told("complete")))[0].reward == 0.0


async def begun(environment: AndroidWorld) -> None:
    try:
        await environment.reset(None, Context.derive(1))
    finally:
        await environment.close()


async def test_a_server_has_one_episode_at_a_time_and_others_wait() -> None:
    async def whole(seed: int) -> float | None:
        async with using(servers, seed=seed) as episode:
            results = await episode.do(
                opened("Contacts"), typed(name_in(episode.goal)), told("complete")
            )
        return results[-1].reward

    async with phones(2) as servers:
        assert await asyncio.gather(*map(whole, range(4))) == [1.0] * 4
        for phone in servers:
            turns = [line.partition("?")[0] for line in await phone.asked() if "/task/" in line]
            begun_and_over = [line for line in turns if line.endswith(("initialize", "tear_down"))]
            assert begun_and_over == ["POST /task/initialize", "POST /task/tear_down"] * (
                len(begun_and_over) // 2
            )
