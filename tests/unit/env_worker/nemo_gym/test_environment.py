"""Episodes at a resource server that is busy, breaks off, and forgets its sessions without a word."""

import json
from pathlib import Path
from typing import Any

import pytest
from tests.support.fake_nemo_gym import FakeNemoGym, Fault
from tests.support.patience import PATIENCE_S

from warren.environment import (
    ConfigError,
    Context,
    EpisodeTranscript,
    NotReplayable,
    ScoreResult,
    StepResult,
    TaskError,
)
from warren.observation import PromptTokens
from warren_env_worker.environments.nemo_gym.connection import GymFailed
from warren_env_worker.environments.nemo_gym.environment import NemoGym
from warren_env_worker.host.refusal import blame
from warren_env_worker.permissions.permissions import KeyGrant, Permissions, ServiceGrant, acting
from warren_env_worker.permissions.service import MAX_ANSWER_BYTES
from warren_schemas.episode import FailureKind

KEY = "WARREN_SECRET_GYM"


def call(name: str, **arguments: object) -> str:
    said = json.dumps({"name": name, "arguments": arguments})
    return f"<tool_call>\n{said}\n</tool_call>"


ONE, TWO = call("add", n=1), call("add", n=2)


def row(*tools: str, expected: int = 3, **params: Any) -> dict[str, Any]:
    listed = [{"type": "function", "name": n, "parameters": {"type": "object"}} for n in tools]
    asked = {"input": "Count.", "tools": listed, **params}
    return {"responses_create_params": asked, "expected": expected}


async def opened(
    url: str, of: dict[str, Any] | None = None, patience_s: float = PATIENCE_S
) -> NemoGym:
    environment = NemoGym(url, patience_s=patience_s)
    environment.context = Context.derive(1)
    try:
        task = environment.task_of(row("add") if of is None else of)
        await environment.reset(task, environment.context)
    except BaseException:
        await environment.close()
        raise
    return environment


def texts(result: StepResult) -> list[str]:
    assert not isinstance(result.observation, str | PromptTokens)
    return [shown.content for shown in result.observation]


async def play(server: FakeNemoGym, *actions: str, of: Any = None) -> list[StepResult]:
    async with server.serving() as url:
        environment = await opened(url, of)
        try:
            return [await environment.step(action) for action in actions]
        finally:
            await environment.close()


def judged(server: FakeNemoGym) -> list[dict[str, Any]]:
    """The items of the last response that was judged."""
    return [body for path, body in server.asked if path == "verify"][-1]["response"]["output"]


async def test_calls_are_made_in_their_order_and_verify_gives_the_reward() -> None:
    server = FakeNemoGym()
    results = await play(server, f"<think>hm</think>First: {ONE}{TWO}", "Done.")
    assert texts(results[0]) == ['{"count": 1}', '{"count": 3}']
    assert [(r.reward, r.done) for r in results] == [(None, False), (1.0, True)]
    counts = {"tool_calls": 2.0, "tool_errors": 0.0, "parse_errors": 0.0}
    assert results[-1].metrics == counts | {"accuracy": 1.0}
    assert [path for path, _ in server.asked] == ["seed_session", "add", "add", "verify"]
    kinds = [item["type"] for item in judged(server)]
    pair = ["function_call", "function_call_output"]
    assert kinds == ["reasoning", "message", *pair, *pair, "message"]


async def test_what_was_said_and_answered_stands_in_the_response() -> None:
    server = FakeNemoGym()
    await play(server, call("ad", n=1) + call("add", n="x"), "<tool_call>{", "<think>Never closed")
    unknown, told, wrong, refused, broken, why, thought, last = judged(server)
    assert (unknown["name"], json.loads(unknown["arguments"])) == ("ad", {"n": 1})
    assert told["output"] == "Error: there is no tool 'ad'; did you mean add?"
    assert wrong["call_id"] == refused["call_id"]
    assert "Input should be a number" in refused["output"]
    assert broken["content"][0]["text"] == "<tool_call>{"
    assert (why["role"], why["content"][:26]) == ("user", "Error: the call was cut of")
    assert (thought["type"], thought["summary"][0]["text"]) == ("reasoning", "Never closed")
    assert last["content"][0]["text"] == ""


async def test_without_tools_all_words_are_the_answer() -> None:
    server = FakeNemoGym()
    server.verdict = {"reward_components": {"form": 0.5}, "said": "yes", "expected": 0}
    (result,) = await play(server, ONE, of=row(expected=0))
    assert (result.reward, result.done) == (1.0, True)
    assert result.metrics == {"accuracy": 1.0, "form": 0.5}
    assert judged(server)[0]["content"][0]["text"] == ONE


async def test_where_the_row_wants_one_call_a_turn_only_the_first_is_made() -> None:
    server = FakeNemoGym()
    results = await play(server, ONE + TWO, "Done.", of=row("add", parallel_tool_calls=False))
    assert texts(results[0]) == ['{"count": 1}', "Error: only the first call of a turn is made"]
    assert [item["type"] for item in judged(server)].count("function_call") == 1


async def test_an_episode_that_is_cut_is_judged_and_one_that_ended_only_once() -> None:
    server = FakeNemoGym()
    server.verdict = {"reward_components": {"form": 0.5}}
    async with server.serving() as url:
        cut, ended = await opened(url), await opened(url)
        await cut.step(ONE + TWO)
        assert await cut.score(EpisodeTranscript(())) == ScoreResult(
            1.0, {"accuracy": 1.0, "form": 0.5}
        )
        await ended.step("Three.")
        assert await ended.score(EpisodeTranscript(())) is None
        await cut.close()
        await ended.close()


@pytest.mark.parametrize(
    "fault", ["busy", "full", "unavailable", "proxy", "before it runs", "after it ran"]
)
@pytest.mark.parametrize("n_before", [0, 1, 2, 3])
async def test_a_request_that_fails_costs_nothing(fault: Fault, n_before: int) -> None:
    """Of seed_session, either call, and verify."""
    server, actions = FakeNemoGym(), [ONE, TWO, "Done."]
    async with server.serving() as url:
        if n_before == 0:
            server.faults.append(fault)
        environment = await opened(url)
        results = list[StepResult]()
        for number, action in enumerate(actions, 1):
            if number == n_before:
                server.faults.append(fault)
            results.append(await environment.step(action))
        await environment.close()
    assert [texts(result) for result in results[:2]] == [['{"count": 1}'], ['{"count": 3}']]
    assert results[-1].reward == 1.0


@pytest.mark.parametrize("fault", ["busy", "full", "unavailable"])
async def test_a_server_that_is_busy_is_waited_for_beyond_the_patience_with_one_that_is_away(
    fault: Fault,
) -> None:
    server = FakeNemoGym()
    server.faults.extend([fault, fault, fault])
    async with server.serving() as url:
        environment = await opened(url, patience_s=0.01)
        assert texts(await environment.step(ONE)) == ['{"count": 1}']
        await environment.close()


@pytest.mark.parametrize(("fault", "n_sessions"), [("busy", 1), ("unavailable", 2)])
async def test_only_a_call_that_is_sure_not_to_have_run_is_made_again_in_its_session(
    fault: Fault, n_sessions: int
) -> None:
    server = FakeNemoGym()
    server.faults.extend([None, None, fault])
    results = await play(server, ONE, TWO, "Done.")
    assert texts(results[1]) == ['{"count": 3}']
    assert len(server.counts) == n_sessions


@pytest.mark.parametrize("n_steps", [0, 1, 2])
async def test_a_server_that_was_started_anew_gets_a_session_with_all_calls(n_steps: int) -> None:
    """It would have gone on counting from 0, and rewarded that."""
    server, actions = FakeNemoGym(), [ONE, TWO, "Done."]
    async with server.serving() as url:
        environment = await opened(url)
        results = list[StepResult]()
        for number, action in enumerate(actions):
            if number == n_steps:
                server.start_anew()
            results.append(await environment.step(action))
        await environment.close()
    assert results[-1].reward == 1.0
    assert len(server.counts) == 1


async def test_a_connection_that_is_gone_is_a_lost_session_though_the_server_kept_it() -> None:
    server = FakeNemoGym()
    async with server.serving() as url:
        environment = await opened(url)
        await environment.step(ONE)
        server.cut()
        assert texts(await environment.step(TWO)) == ['{"count": 3}']
        await environment.close()
    assert list(server.counts) == ["session-1", "session-2"]


@pytest.mark.slow
async def test_a_session_that_nobody_uses_is_kept_awake() -> None:
    server = FakeNemoGym()
    async with server.serving() as url:
        environment = await opened(url)
        await environment.step(ONE)
        await server.n_pinged.acquire()
        assert texts(await environment.step(TWO)) == ['{"count": 3}']
        await environment.close()
    assert list(server.counts) == ["session-1"]


async def test_one_that_answers_otherwise_is_not_replayable() -> None:
    server = FakeNemoGym()
    async with server.serving() as url:
        environment = await opened(url)
        await environment.step(ONE)
        server.start_anew()
        server.offset = 7
        with pytest.raises(NotReplayable, match=r"it answers call 1 \(add\) otherwise"):
            await environment.step(TWO)
        await environment.close()


async def test_one_that_fails_at_a_repeated_call_is_not_replayable() -> None:
    server = FakeNemoGym()
    async with server.serving() as url:
        environment = await opened(url)
        await environment.step(ONE)
        server.start_anew()
        server.added = {"log": "x" * MAX_ANSWER_BYTES}
        with pytest.raises(NotReplayable, match=r"it fails at call 1 \(add\): .*too long"):
            await environment.step(TWO)
        await environment.close()


async def test_a_server_that_is_lost_again_and_again_or_is_not_there_fails_by_its_name() -> None:
    server = FakeNemoGym()
    async with server.serving() as url:
        environment = await opened(url)
        again: list[Fault | None] = ["after it ran", None]  # a session is seeded, and lost again
        server.faults += again * 3
        with pytest.raises(GymFailed, match="lost the session 3 times"):
            await environment.step(ONE)
        await environment.close()
    with pytest.raises(GymFailed) as failed:
        await opened(url, patience_s=0.01)
    assert blame(failed.value, "warren_env_worker").kind is FailureKind.ENVIRONMENT_ERROR


async def test_a_reward_that_is_none_and_a_row_that_is_refused_fail_the_episode() -> None:
    server = FakeNemoGym()
    server.verdict = {"reward": None}
    with pytest.raises(GymFailed, match="the answer to verify is not of the protocol: reward"):
        await play(server, "Done.")
    server.verdict = {"reward": 0.0, "_ng_failure_class": "judge_failed"}
    with pytest.raises(GymFailed, match="judged nothing: judge_failed"):
        await play(server, "Done.")
    without = {"responses_create_params": {"input": "Count."}}
    with pytest.raises(TaskError, match=r"in seed_session: body.expected: Field required"):
        await play(server, of=without)


async def test_a_long_answer_is_cut_and_the_key_goes_along() -> None:
    server = FakeNemoGym()
    async with server.serving() as url:
        grants = (ServiceGrant(url, may_be_private=True),)
        keys = (KeyGrant(KEY, "s3cret-key", (url,)),)
        with acting(Permissions(services=grants, keys=keys)):
            environment = NemoGym(url, key_variable=KEY, result_chars=5)
        await environment.reset(environment.task_of(row("add")), Context.derive(1))
        assert texts(await environment.step(ONE)) == ['{"cou\n[7 more characters]']
        await environment.close()
        assert server.keys == {"Bearer s3cret-key"}
        with acting(Permissions()), pytest.raises(ConfigError):
            NemoGym(url)


def test_tasks_come_from_one_place(tmp_path: Path) -> None:
    path = tmp_path / "train.jsonl"
    path.write_text(json.dumps(row("add")))
    url = "http://127.0.0.1:1/"
    assert len(NemoGym(url, path=str(tmp_path / "{split}.jsonl")).tasks("train")) == 1
    with pytest.raises(ConfigError, match="nothing says where the tasks are"):
        NemoGym(url).tasks("train")
    with pytest.raises(ConfigError, match="has no effect beside a dataset"):
        NemoGym(url, path="train.jsonl").task_of(row("add"))
