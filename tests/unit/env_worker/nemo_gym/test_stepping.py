"""Episodes at a server of the class `GymnasiumServer`, which is lost in the middle of them."""

import json
from typing import Any

import pytest
from tests.support.fake_nemo_gym import FakeNemoGym
from tests.support.patience import PATIENCE_S

from warren.environment import Context, EpisodeTranscript, NotReplayable, StepResult
from warren.observation import PromptTokens
from warren_env_worker.environments.nemo_gym.connection import GymFailed
from warren_env_worker.environments.nemo_gym.stepping import NemoGymnasium

TOOL: dict[str, Any] = {"type": "function", "name": "add", "parameters": {"type": "object"}}


def call(name: str, **arguments: object) -> str:
    said = json.dumps({"name": name, "arguments": arguments})
    return f"<tool_call>\n{said}\n</tool_call>"


ONE, TWO = call("add", n=1), call("add", n=2)


def row(*said: str, **params: Any) -> bytes:
    asked = {"input": [{"role": "user", "content": each} for each in said], "tools": [TOOL]}
    return json.dumps({"responses_create_params": {**asked, **params}, "expected": 3}).encode()


async def opened(url: str, task: bytes) -> tuple[NemoGymnasium, list[str]]:
    environment = NemoGymnasium(url, patience_s=PATIENCE_S)
    try:
        shown = await environment.reset(task, Context.derive(1))
    except BaseException:
        await environment.close()
        raise
    return environment, [message.content for message in shown]


def shown(result: StepResult) -> list[tuple[str, str]]:
    assert not isinstance(result.observation, str | PromptTokens)
    return [(message.role, message.content) for message in result.observation]


async def test_steps_answer_and_reward_each_turn_and_make_the_calls() -> None:
    server = FakeNemoGym()
    async with server.serving() as url:
        environment, first = await opened(url, row("Count."))
        results = [await environment.step(words) for words in ("Well.", ONE, f"And {TWO}")]
        assert await environment.score(EpisodeTranscript(())) is None
        await environment.close()
    assert first == ["Count.", "Begin."]
    assert [shown(result) for result in results] == [
        [("user", "Go on.")], [("tool", "1"), ("user", "Go on.")], [("tool", "3")]
    ]  # fmt: skip
    assert [(r.reward, r.done) for r in results] == [(0.0, False), (0.0, False), (1.0, True)]
    counts = {"tool_calls": 2.0, "tool_errors": 0.0, "parse_errors": 0.0}
    assert results[-1].metrics == counts | {"n_calls": 1.0}
    turns = [body["response"]["output"] for path, body in server.asked if path == "step"]
    assert [[item["type"] for item in turn] for turn in turns] == [
        ["message"], ["function_call"], ["message", "function_call"]
    ]  # fmt: skip


async def test_of_several_calls_the_first_is_made_where_the_row_wants_one() -> None:
    async with FakeNemoGym().serving() as url:
        environment, _ = await opened(url, row("Count.", parallel_tool_calls=False))
        assert shown(await environment.step(ONE + TWO)) == [("tool", "1"), ("user", "Go on.")]
        await environment.close()


async def test_a_row_may_leave_the_words_to_reset_but_one_of_them_has_some() -> None:
    server = FakeNemoGym()
    async with server.serving() as url:
        environment, first = await opened(url, row())
        await environment.close()
        server.greeting = None
        with pytest.raises(GymFailed, match="neither the row nor reset has words"):
            await opened(url, row())
    assert first == ["Begin."]


async def test_a_lost_session_is_begun_anew_with_all_steps() -> None:
    server = FakeNemoGym()
    async with server.serving() as url:
        environment, _ = await opened(url, row("Count."))
        await environment.step(ONE)
        server.start_anew()
        result = await environment.step(TWO)
        await environment.close()
    assert (shown(result), result.reward) == ([("tool", "3")], 1.0)


async def test_one_that_begins_or_goes_on_otherwise_is_not_replayable() -> None:
    server = FakeNemoGym()
    async with server.serving() as url:
        for told, change in (("reset", {"greeting": "Go."}), (r"call 1 \(step\)", {"offset": 5})):
            environment, _ = await opened(url, row("Count."))
            await environment.step(ONE)
            server.start_anew()
            vars(server).update(change)
            with pytest.raises(NotReplayable, match=f"it answers {told} otherwise"):
                await environment.step(TWO)
            await environment.close()
