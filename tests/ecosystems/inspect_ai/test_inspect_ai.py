"""Samples of Inspect on the real package: their tools, sandboxes, scorers, and what fails."""

import asyncio

import pytest
from aiohttp import web
from tests.ecosystems.inspect_ai.serving import CLASS, call, ended, episode, host, installed, text
from tests.support.hosting import hosting

from warren_env_worker.host.host import Host
from warren_env_worker.host.protocol import Observed, Refused
from warren_schemas.episode import FailureKind
from warren_schemas.operator_policy import OperatorPolicy

__all__ = ["host", "installed"]
pytestmark = [
    pytest.mark.ecosystem_all,
    pytest.mark.server,
    pytest.mark.asyncio(loop_scope="module"),
]
ERROR, CONFIG = FailureKind.ENVIRONMENT_ERROR, FailureKind.ENVIRONMENT_CONFIG


def over(answer: object) -> Observed:
    assert isinstance(answer, Observed), answer
    assert answer.is_over
    return answer


@pytest.mark.shows("Inspect", "tasks")
async def test_a_sample_is_asked_and_scored(host: Host) -> None:
    player = episode(host, "sums", arguments={"n": 1})
    begun = await player.reset()
    assert isinstance(begun, Observed)
    assert (begun.category, begun.n_tasks) == ("sums", 1)
    assert begun.messages == [("user", "3 + 4?")] or text(begun) == "3 + 4?"
    right = over(await player.step("It is 7."))
    wrong = over(await ended(episode(host, "sums", arguments={"n": 1}), "It is 8."))
    assert (right.reward, wrong.reward) == (1.0, 0.0)
    assert right.metrics == {"includes": 1.0, "limited": 0.0}


@pytest.mark.shows("Inspect", "tools", "several turns")
async def test_tools_of_a_task(host: Host) -> None:
    player = episode(host, "shopping")
    begun = await player.reset()
    assert isinstance(begun, Observed)
    assert "The price of an article." in begun.messages[0][1]
    assert text(await player.step(call("price", article="tea"))) == "3"
    assert over(await player.step("It is 3.")).reward == 1.0


async def test_several_turns_and_a_limit_of_the_task(host: Host) -> None:
    player = episode(host, "two_questions")
    await player.reset()
    assert text(await player.step("e")) == "and 0?"
    assert over(await player.step("o")).reward == 4.0
    cut = over(await ended(episode(host, "limited"), "7"))
    assert (cut.reward, cut.metrics["limited"]) == (1.0, 1.0)


async def test_a_sandbox_is_a_box(host: Host) -> None:
    player = episode(host, "in_a_sandbox", sandbox="box")
    await player.reset()
    assert text(await player.step(call("bash", command="pwd; cat a.txt"))) == "/work\n7"
    said = text(await player.step(call("bash", command="ls /root /sys")))
    assert "cannot access '/sys'" in said
    assert over(await player.step("7")).reward == 1.0


async def test_parts_of_a_reward_have_weights(host: Host) -> None:
    summed = over(await ended(episode(host, "several_scores"), "7"))
    weights = {"both/right": 0.5, "both/short": -0.25}
    weighted = over(await ended(episode(host, "several_scores", weights=weights), "7"))
    unknown = await ended(episode(host, "several_scores", weights={"x": 1.0}), "7")
    assert (summed.reward, weighted.reward) == (3.0, 0.25)
    assert summed.metrics == {
        "both/right": 1.0,
        "both/short": 1.0,
        "includes": 1.0,
        "limited": 0.0,
    }
    assert isinstance(unknown, Refused)
    assert unknown.kind is CONFIG
    assert "no score is called x; there are both/right" in unknown.reason


@pytest.mark.parametrize(
    ("how", "kind", "reason"),
    [
        ("raises", ERROR, "the scorer is kaput"),
        ("unscored", ERROR, "no idea"),
        ("words", ERROR, "gave what is no number: perhaps"),
        (
            "dies",
            FailureKind.ENVIRONMENT_CRASHED,
            "the process of inspect_ai was lost, 3 times at one action",
        ),
    ],
)
async def test_what_is_not_scored_is_a_failure(
    host: Host, how: str, kind: FailureKind, reason: str
) -> None:
    answer = await ended(episode(host, "kaput", arguments={"how": how}), "7")
    assert isinstance(answer, Refused), answer
    assert answer.kind is kind
    assert reason in answer.reason


async def test_no_scorer_asks_the_policy(host: Host) -> None:
    answer = await ended(episode(host, "graded"), "7")
    assert isinstance(answer, Refused), answer
    assert "a scorer asks the policy" in answer.reason


@pytest.mark.shows("Inspect", "secrets")
async def test_a_grader_is_another_model(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = asyncio.Queue[tuple[str | None, str]]()

    async def grade(request: web.Request) -> web.Response:
        body = await request.json()
        await asked.put((request.headers.get("Authorization"), body["model"]))
        message = {"role": "assistant", "content": "GRADE: C"}
        choice = {"index": 0, "message": message, "finish_reason": "stop"}
        told = {"id": "1", "object": "chat.completion", "created": 0, "model": "large"}
        return web.json_response({**told, "choices": [choice]})

    monkeypatch.setenv("WARREN_SECRET_GRADER", "secret")
    app = web.Application()
    app.router.add_post("/v1/chat/completions", grade)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    url = f"http://127.0.0.1:{runner.addresses[0][1]}/v1"
    grader = {"url": url, "model": "large", "key_variable": "WARREN_SECRET_GRADER"}
    try:
        async with hosting(CLASS) as host:  # its process knows the secret
            answer = await ended(episode(host, "graded", models={"grader": grader}), "7")
    finally:
        await runner.cleanup()
    assert over(answer).reward == 1.0
    assert asked.get_nowait() == ("Bearer secret", "large")


async def test_what_is_not_there_is_refused(host: Host) -> None:
    for config, reason in (
        ({"task": "no_such/task"}, "no_such/task"),
        ({"task": "hf/some/data"}, "package/task"),
        ({"task": "/no/such.py@task"}, "such.py"),
        ({"arguments": {"m": 3}}, "m"),
    ):
        answer = await episode(host, "sums", **config).reset()
        assert isinstance(answer, Refused), answer
        assert answer.kind is CONFIG, answer
        assert reason in answer.reason, answer


async def test_under_a_policy_tasks_are_those_that_are_listed() -> None:
    async with hosting(CLASS, policy=OperatorPolicy(functions=("listed:*",))) as host:
        for config, reason in (
            ({}, "tasks of installed packages alone"),
            ({"task": "other/task"}, "other:task is no task"),
            ({"task": "listed/task", "arguments": {"x": ["a"]}}, "numbers and texts alone"),
            ({"task": "listed/task", "sandbox": "docker"}, "docker is not allowed"),
        ):
            answer = await episode(host, "sums", **config).reset()
            assert isinstance(answer, Refused), answer
            assert answer.kind is CONFIG, answer
            assert reason in answer.reason, answer
