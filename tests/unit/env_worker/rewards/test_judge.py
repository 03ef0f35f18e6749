"""A language model as a judge: what it is asked, how it is read, and all that may go wrong."""

import asyncio
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import BaseTestServer
from tests.support.fake_judge import Answer, FakeJudge, base_url, saying, status

from warren.environment import ChatMessage
from warren_env_worker.permissions.permissions import TRUSTED
from warren_env_worker.rewards.composition import Composition
from warren_env_worker.rewards.judge import Judge, Spent, judge_of_episodes
from warren_env_worker.rewards.questions import prompt, score_in
from warren_env_worker.rewards.scored import RewardFailed, Scored
from warren_schemas.config import JsonScore, Judgement, JudgeReward, NumberScore, YesNoScore
from warren_schemas.errors import ConfigurationError

MESSAGES = (
    ChatMessage(role="system", content="Be brief."),
    ChatMessage(role="user", content="6*7?"),
    ChatMessage(role="assistant", content="{gold} it is"),
)
SCORED = Scored(MESSAGES, "{gold} it is", "42", 1.0, run="run_1")


def other(words: str) -> Scored:
    return Scored(MESSAGES, words, "42", 1.0, run="run_1")


def no_choices(body: dict[str, Any]) -> web.Response:
    return web.json_response({"choices": []})


def settings(server: BaseTestServer, **changes: Any) -> JudgeReward:
    fields: dict[str, Any] = {"model": "m", "prompt": "How good is {response}?"}
    return JudgeReward(url=base_url(server), **(fields | changes))


def judge(of: JudgeReward, *, first_pause_s: float = 0.0) -> Judge[Scored, float]:
    service = TRUSTED.service(f"{of.url}/chat/completions", of.key_variable)
    return judge_of_episodes(service, of, Spent(), first_pause_s=first_pause_s)


@pytest.mark.parametrize(
    ("answer", "how", "score"),
    [
        ("8 of 10? No: 7", NumberScore(), 0.7),
        ("The score is -1.", NumberScore(minimum=-1, maximum=1), 0.0),
        ("Score: 4 of 5, 2 errors", NumberScore(after="Score:", minimum=1, maximum=5), 0.75),
        ("Score: 4. Final Score: 2.5 (of 5)", NumberScore(after="Score:", maximum=5), 0.5),
        ("4", NumberScore(after="Score:"), None),
        ("11", NumberScore(), None),
        ("none", NumberScore(), None),
        ("Yes.", YesNoScore(), 1.0),
        ("Is it right? yes … no, it is NO", YesNoScore(), 0.0),
        ("Nobody knows, yesterday", YesNoScore(), None),
        ('```json\n{"score": 10, "why": "x"}\n```', JsonScore(), 1.0),
        ('{"right": true}', JsonScore(field="right"), 1.0),
        ('{"right": 3}', JsonScore(field="right", minimum=1, maximum=5), 0.5),
        ('{"score": "ten"}', JsonScore(), None),
        ("{not json}", JsonScore(), None),
        ("[1]", JsonScore(), None),
        ("", JsonScore(), None),
    ],
)
def test_scores_are_read_from_what_a_judge_says(
    answer: str, how: Judgement, score: float | None
) -> None:
    assert score_in(answer, how) == score


def test_placeholders_are_filled_in_once_and_other_braces_stay() -> None:
    template = '{task} {response} {gold} {own_reward} {"score": 1} {unknown}'
    assert prompt(template, SCORED) == '6*7? {gold} it is 42 1 {"score": 1} {unknown}'
    assert prompt("{messages}", SCORED) == (
        "[system]\nBe brief.\n\n[user]\n6*7?\n\n[assistant]\n{gold} it is"
    )
    with pytest.raises(RewardFailed, match=r"its prompt has \{gold\}") as failed:
        prompt("{response} {gold}", Scored(MESSAGES, "x", None, None))
    assert not failed.value.is_retryable


@pytest.mark.parametrize(
    "wrong",
    [
        {"prompt": "How good is it?"},
        {"score": {"kind": "number", "minimum": 3, "maximum": 3}},
        {"deadline_s": 1000},
        {"url": "ftp://x"},
    ],
)
def test_judges_that_will_not_do(wrong: dict[str, Any]) -> None:
    fields: dict[str, Any] = {"url": "http://x/v1", "model": "m", "prompt": "{response}"}
    with pytest.raises(ConfigurationError):
        JudgeReward(**(fields | wrong))


async def test_what_is_asked_stands_in_the_request(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WARREN_SECRET_JUDGE", "the-key")
    fake = FakeJudge()
    async with fake.served() as server:
        of = settings(
            server, system="Be strict.", temperature=0.5, max_tokens=9,
            key_variable="WARREN_SECRET_JUDGE",
        )  # fmt: skip
        total, metrics = await Composition((of,)).score(SCORED)
    assert (total, metrics) == (0.7, {"reward/judge0": 0.7})
    assert fake.bodies == [
        {
            "model": "m",
            "messages": [
                {"role": "system", "content": "Be strict."},
                {"role": "user", "content": "How good is {gold} it is?"},
            ],
            "temperature": 0.5,
            "max_tokens": 9,
        }
    ]
    assert fake.keys == ["Bearer the-key"]


async def test_the_same_question_is_asked_once_as_long_as_it_is_remembered() -> None:
    fake = FakeJudge()
    async with fake.served() as server:
        asked = judge(settings(server, cache=1))
        assert await asyncio.gather(*(asked.score(SCORED) for _ in range(4))) == [0.7] * 4
        await asked.score(SCORED)
        assert len(fake.bodies) == 1
        await asked.score(other("more"))
        await asked.score(SCORED)
        assert len(fake.bodies) == 3
        forgetful = judge(settings(server, cache=0))
        await asyncio.gather(*(forgetful.score(SCORED) for _ in range(2)))
        assert len(fake.bodies) == 5
        assert forgetful.is_idle


async def test_no_more_are_asked_at_once_than_may_be() -> None:
    fake = FakeJudge()
    fake.goes_on.clear()
    async with fake.served() as server:
        asked = judge(settings(server, in_flight=2))
        async with asyncio.TaskGroup() as group:
            for number in range(6):
                group.create_task(asked.score(other(str(number))), name=f"question {number}")
            await fake.asked.acquire()
            await fake.asked.acquire()
            fake.goes_on.set()
    assert (fake.most_at_once, len(fake.bodies)) == (2, 6)


@pytest.mark.parametrize("failing", [status(429), status(503), saying("I can't say")])
async def test_a_busy_judge_and_one_without_a_score_are_asked_again(failing: Answer) -> None:
    fake = FakeJudge(failing, failing)
    async with fake.served() as server:
        assert await judge(settings(server, tries=3)).score(SCORED) == 0.7
    assert len(fake.bodies) == 3


@pytest.mark.parametrize(
    ("answer", "n_asked", "reason"),
    [
        (status(500), 2, "it can't be reached, or it failed"),
        (status(401), 1, "it can't be reached, or it failed"),
        (saying("hm"), 2, r"m gave no score \(score: number\), asked 2 times"),
        (no_choices, 1, "did not answer as a chat"),
    ],
)
async def test_what_has_no_score_in_the_end_fails_and_is_not_remembered(
    answer: Answer, n_asked: int, reason: str
) -> None:
    fake = FakeJudge(*[answer] * n_asked)
    async with fake.served() as server:
        asked = judge(settings(server, tries=2))
        with pytest.raises(RewardFailed, match=reason):
            await asked.score(SCORED)
        assert len(fake.bodies) == n_asked
        assert await asked.score(SCORED) == 0.7


async def test_a_judge_who_does_not_answer_in_time_fails_the_part() -> None:
    fake = FakeJudge()
    fake.goes_on.clear()
    async with fake.served() as server:
        with pytest.raises(RewardFailed, match=r"m gave no score within 0\.05 s"):
            await judge(settings(server, deadline_s=0.05)).score(SCORED)
        fake.goes_on.set()


async def test_one_who_asks_for_a_longer_pause_than_there_is_time_fails_the_part() -> None:
    fake = FakeJudge(otherwise=status(429, "3600"))
    async with fake.served() as server:
        with pytest.raises(RewardFailed, match=r"gave no score within 0\.2 s"):
            await judge(settings(server, deadline_s=0.2)).score(SCORED)
    assert len(fake.bodies) <= 1


async def test_a_budget_that_is_spent_fails_what_is_asked_next() -> None:
    fake = FakeJudge(otherwise=saying("7", n_tokens=10))
    async with fake.served() as server:
        for limit in ({"max_requests": 2}, {"max_total_tokens": 20}):
            asked = judge(settings(server, **limit))
            await asked.score(other("one"))
            await asked.score(other("two"))
            assert await asked.score(other("two")) == 0.7, "what is remembered costs nothing"
            with pytest.raises(RewardFailed, match=f"has spent its {next(iter(limit))}") as failed:
                await asked.score(other("three"))
            assert not failed.value.is_retryable
    assert len(fake.bodies) == 4


async def test_each_run_has_a_budget_of_its_own() -> None:
    fake = FakeJudge()
    async with fake.served() as server:
        composition = Composition((settings(server, max_requests=1),))
        for run in ("run_1", "run_2"):
            assert (await composition.score(Scored(MESSAGES, "one", None, None, run=run)))[0] == 0.7
            with pytest.raises(RewardFailed, match="max_requests of 1"):
                await composition.score(Scored(MESSAGES, "two", None, None, run=run))
