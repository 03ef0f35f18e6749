"""Services that compare a group by a service or a judge: what they are asked, how they are read, and all that may go wrong."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import BaseTestServer, TestServer
from tests.support.fake_judge import Answer, FakeJudge, base_url, saying, status

from warren.environment import ChatMessage, EpisodeTranscript
from warren_env_worker.permissions.permissions import TRUSTED
from warren_env_worker.rewards.composition import GroupComposition
from warren_env_worker.rewards.judge import Judge, Spent, judge_of_groups
from warren_env_worker.rewards.questions import group_prompt, scores_in
from warren_env_worker.rewards.scored import RewardFailed, ScoredGroup
from warren_env_worker.rewards.service import GroupRewardService
from warren_schemas.config import (
    EnvironmentConfig,
    GroupFunctionReward,
    GroupJudgement,
    GroupJudgeReward,
    GroupServiceReward,
    ListScore,
    RankingScore,
)
from warren_schemas.errors import ConfigurationError

FAILED = "it can't be reached, or it failed"


def member(words: str, reward: float | None = 0.5) -> EpisodeTranscript:
    said = (
        ChatMessage(role="user", content="6*7?"),
        ChatMessage(role="assistant", content=words),
    )
    return EpisodeTranscript(said, (reward,), {"exact": 1.0}, "done")


def group(*words: str, run: str = "run_1") -> ScoredGroup:
    return ScoredGroup([member(each) for each in words], run)


THREE = group("{n} it is", "42", "no")


@pytest.mark.parametrize(
    ("answer", "how", "scores"),
    [
        ("Ranking: 2 > 1 > 3", RankingScore(), [0.5, 1.0, 0.0]),
        ("Ranking: 1, 2, 3? Ranking: [3], [1], [2]. 3 is best", RankingScore(), [0.5, 0.0, 1.0]),
        ("I have 3: 3 1 2", RankingScore(after=""), [0.5, 0.0, 1.0]),
        ("3 1 2", RankingScore(), None),
        ("Ranking: 1 > 1 > 2", RankingScore(), None),
        ("Ranking: 1 > 2", RankingScore(), None),
        ("Ranking: 0 > 1 > 2", RankingScore(), None),
        (f"Ranking: {'9' * 5000}", RankingScore(), None),
        ("[0] then [10, 5, 0]", ListScore(), [1.0, 0.5, 0.0]),
        ("```json\n[1, 1.5, 2]\n```", ListScore(minimum=1, maximum=2), [0.0, 0.5, 1.0]),
        ("[1, 2]", ListScore(), None),
        ("[1, 2, 11]", ListScore(), None),
        ("[1, true, 2]", ListScore(), None),
        ('[1, "2", 3]', ListScore(), None),
        ("[1, 2,", ListScore(), None),
        ("[a, b, c]", ListScore(), None),
        ("", ListScore(), None),
    ],
)
def test_scores_of_a_group_are_read_from_what_a_judge_says(
    answer: str, how: GroupJudgement, scores: list[float] | None
) -> None:
    assert scores_in(answer, how, 3) == scores


def test_one_alone_is_the_best() -> None:
    assert scores_in("Ranking: 1", RankingScore(), 1) == [1.0]


def test_all_episodes_stand_in_the_prompt_and_what_they_say_is_not_filled_in() -> None:
    assert group_prompt("{task} {n}: {responses} {x}", THREE) == (
        "6*7? 3: [1]\n{n} it is\n\n[2]\n42\n\n[3]\nno {x}"
    )
    assert group_prompt("{transcripts}", group("a", "b")) == (
        "[1]\n[user]\n6*7?\n\n[assistant]\na\n\n[2]\n[user]\n6*7?\n\n[assistant]\nb"
    )


@pytest.mark.parametrize(
    "wrong",
    [
        {"kind": "group_judge", "prompt": "{response}"},
        {"kind": "group_judge", "prompt": "{responses}", "score": "yes_no"},
        {"kind": "group_judge", "prompt": "{responses}", "batch": 3},
        {"kind": "group_service", "batch": 3},
        {"kind": "group_service", "cache": 3},
        {"kind": "group_service", "url": "ftp://x"},
    ],
)
def test_settings_that_will_not_do_or_have_no_effect_are_refused(wrong: dict[str, Any]) -> None:
    needed: dict[str, Any] = {"model": "m"} if wrong["kind"] == "group_judge" else {}
    with pytest.raises(ConfigurationError):
        EnvironmentConfig(name="guess", rewards=({"url": "http://x/v1", **needed, **wrong},))  # pyright: ignore[reportArgumentType]


class Service:
    """Its next answers are given; it remembers what it was asked."""

    def __init__(self, *answers: Callable[[int], web.Response]) -> None:
        self.answers = list(answers)
        self.bodies: list[dict[str, Any]] = []
        self.keys: list[str | None] = []

    async def answer(self, request: web.Request) -> web.Response:
        self.bodies.append(await request.json())
        self.keys.append(request.headers.get("Authorization"))
        n = len(self.bodies[-1]["group"])
        return (self.answers.pop(0) if self.answers else ranks)(n)

    def served(self) -> TestServer:
        app = web.Application()
        app.router.add_post("/", self.answer)
        return TestServer(app)


def ranks(n: int) -> web.Response:
    return web.json_response({"rewards": [float(number) for number in range(n)]})


def telling(text: str) -> Callable[[int], web.Response]:
    return lambda _: web.Response(text=text)


def busy(_: int) -> web.Response:
    return web.Response(status=503, headers={"Retry-After": "0"})


def asking(server: BaseTestServer, **changes: Any) -> GroupRewardService:
    settings = GroupServiceReward(url=str(server.make_url("/")), **changes)
    return GroupRewardService(
        TRUSTED.service(settings.url, settings.key_variable), settings, first_pause_s=0.0
    )


async def test_a_service_gets_a_group_at_once_and_gives_each_its_reward(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("WARREN_SECRET_JUDGE", "the-key")
    service = Service()
    async with service.served() as server:
        client = asking(server, key_variable="WARREN_SECRET_JUDGE")
        assert await client.score(THREE) == [0.0, 1.0, 2.0]
        assert client.is_idle
    assert service.keys == ["Bearer the-key"]
    (body,) = service.bodies
    assert body["group"][1] == {
        "messages": [
            {"role": "user", "content": "6*7?"},
            {"role": "assistant", "content": "42"},
        ],
        "response": "42",
        "rewards": [0.5],
        "reward": 0.5,
        "metrics": {"exact": 1.0},
        "ending": "done",
    }


async def test_a_busy_service_is_asked_again_and_one_that_stays_so_fails_the_group() -> None:
    service = Service(busy, ranks, busy, busy)
    async with service.served() as server:
        client = asking(server, tries=2)
        assert await client.score(THREE) == [0.0, 1.0, 2.0]
        with pytest.raises(RewardFailed, match=FAILED):
            await client.score(THREE)
    assert len(service.bodies) == 4


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (telling("hello"), FAILED),
        (telling("[1]"), "did not answer"),
        (telling('{"rewards": [1.0]}'), "did not answer with 3 rewards"),
        (telling('{"rewards": [1.0, null, 2.0]}'), "no finite number"),
    ],
)
async def test_a_group_has_all_rewards_or_none(
    answer: Callable[[int], web.Response], reason: str
) -> None:
    async with Service(answer).served() as server:
        with pytest.raises(RewardFailed, match=reason):
            await asking(server, tries=1).score(THREE)


def settings(server: BaseTestServer, **changes: Any) -> GroupJudgeReward:
    fields: dict[str, Any] = {"model": "m", "prompt": "Rank {responses}"}
    return GroupJudgeReward(url=base_url(server), **(fields | changes))


def judge(of: GroupJudgeReward) -> Judge[ScoredGroup, list[float]]:
    service = TRUSTED.service(f"{of.url}/chat/completions", of.key_variable)
    return judge_of_groups(service, of, Spent(), first_pause_s=0.0)


RANKED = saying("Ranking: 2 > 1 > 3")


async def test_a_judge_ranks_a_group_by_one_question_which_is_remembered() -> None:
    fake = FakeJudge(otherwise=RANKED)
    async with fake.served() as server:
        asked = judge(settings(server, system="Be strict.", temperature=0.5, max_tokens=9))
        assert (
            await asyncio.gather(*(asked.score(THREE) for _ in range(3))) == [[0.5, 1.0, 0.0]] * 3
        )
        await asked.score(group("other", "words", "now"))
    first, second = fake.bodies
    assert first == {
        "model": "m",
        "messages": [
            {"role": "system", "content": "Be strict."},
            {"role": "user", "content": "Rank [1]\n{n} it is\n\n[2]\n42\n\n[3]\nno"},
        ],
        "temperature": 0.5,
        "max_tokens": 9,
    }
    assert first["messages"][1] != second["messages"][1]


@pytest.mark.parametrize("failing", [status(429), saying("I can't say"), saying("Ranking: 1 > 2")])
async def test_a_busy_judge_and_one_who_leaves_some_out_are_asked_again(failing: Answer) -> None:
    fake = FakeJudge(failing, failing, RANKED)
    async with fake.served() as server:
        assert await judge(settings(server, tries=3)).score(THREE) == [0.5, 1.0, 0.0]
    fake = FakeJudge(failing, failing)
    async with fake.served() as server:
        with pytest.raises(RewardFailed):
            await judge(settings(server, tries=2)).score(THREE)
    assert len(fake.bodies) == 2


async def test_a_judge_of_groups_has_a_deadline_too() -> None:
    fake = FakeJudge()
    fake.goes_on.clear()
    async with fake.served() as server:
        with pytest.raises(RewardFailed, match=r"m gave no score within 0\.05 s"):
            await judge(settings(server, deadline_s=0.05)).score(THREE)
        fake.goes_on.set()


async def test_each_run_has_a_budget_for_its_groups() -> None:
    fake = FakeJudge(otherwise=RANKED)
    async with fake.served() as server:
        composition = GroupComposition((settings(server, max_requests=1, weight=2.0),))
        for run in ("run_1", "run_2"):
            first, *_ = await composition.score(group("a", "b", "c", run=run))
            assert first == (1.0, {"reward/group_judge0": 0.5})
            with pytest.raises(RewardFailed, match="max_requests of 1") as failed:
                await composition.score(group("d", "e", "f", run=run))
            assert not failed.value.is_retryable


async def test_parts_of_all_kinds_are_added_up_for_each_member() -> None:
    fake, service = FakeJudge(otherwise=saying("[10, 5, 0]")), Service()
    async with fake.served() as judging, service.served() as serving:
        parts = (
            GroupFunctionReward(function="tests.unit.env_worker.rewards.functions:rank"),
            GroupServiceReward(url=str(serving.make_url("/")), weight=0.5, name="served"),
            settings(judging, score="list", name="judged"),
        )
        given = await GroupComposition(parts).score(THREE)
    assert [total for total, _ in given] == [2.0, 2.0, 2.0]
    assert given[1][1] == {"reward/rank": 1.0, "reward/served": 1.0, "reward/judged": 0.5}
