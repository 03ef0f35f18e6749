"""Rewards of the user's own: functions, services, weights, and failures that are no zeros.

Parity rows 26 and 55.
"""

import asyncio
from collections.abc import Callable

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from pydantic import ValidationError

from warren.environment import ChatMessage, ConfigError
from warren_env_worker.permissions.permissions import TRUSTED
from warren_env_worker.rewards.clients import MAX_IDLE, Asker, RewardClients, client_of
from warren_env_worker.rewards.composition import Composition
from warren_env_worker.rewards.function import RewardFunction
from warren_env_worker.rewards.scored import RewardFailed, Scored
from warren_env_worker.rewards.service import RewardService
from warren_schemas.config import (
    EnvironmentConfig,
    FunctionReward,
    OwnReward,
    Reward,
    ServiceReward,
)
from warren_schemas.errors import ConfigurationError

FAILED = "it can't be reached, or it failed"
HERE = "tests.unit.env_worker.rewards.functions"
SCORED = Scored((ChatMessage(role="user", content="?"),), "four words of mine", "42", 1.0, "gsm8k")


@pytest.mark.parametrize(
    ("name", "reward"),
    [
        ("brevity", -4.0),
        ("patient", 1.0),
        ("compute_score", 2.0),
        ("greedy", 3.0),
        ("Judge.whole", 7),
    ],
)
async def test_functions_take_what_they_name(name: str, reward: float) -> None:
    assert await RewardFunction(f"{HERE}:{name}")(SCORED) == reward


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("raises", r"ZeroDivisionError: .*functions\.py:\d+"),
        ("gives_nan", "of type float that is no finite number"),
        ("gives_text", "of type str that is no finite number"),
        ("gives_none", "of type NoneType that is no finite number"),
    ],
)
async def test_functions_that_fail_give_no_reward(name: str, reason: str) -> None:
    with pytest.raises(RewardFailed, match=reason):
        await RewardFunction(f"{HERE}:{name}")(SCORED)


@pytest.mark.parametrize(
    ("path", "reason"),
    [
        (f"{HERE}:nothing", "there is no reward function"),
        ("no_such_module:f", "there is no reward function"),
        (f"{HERE}:NUMBER", "is no function"),
        ("os:fork", "is no function written in Python"),
        (f"{HERE}:asks_for_more", "asks for temperature; a reward function may take response, "),
    ],
)
def test_functions_that_will_not_do(path: str, reason: str) -> None:
    with pytest.raises(ConfigError, match=reason):
        RewardFunction(path)


async def test_parts_are_added_up_with_their_weights() -> None:
    short = FunctionReward(function=f"{HERE}:brevity", weight=0.1, name="short")
    greedy = FunctionReward(function=f"{HERE}:greedy", weight=2.0)
    parts = (OwnReward(weight=9.0), short, greedy)
    total, metrics = await Composition(parts).score(SCORED)
    assert total == pytest.approx(5.6), "the own part is weighted where it was given"
    assert metrics == {"reward/own": 1.0, "reward/short": -4.0, "reward/greedy": 3.0}
    assert await Composition((OwnReward(),)).score(SCORED) == (None, {"reward/own": 1.0})
    with pytest.raises(RewardFailed):
        await Composition((*parts, FunctionReward(function=f"{HERE}:raises"))).score(SCORED)


def test_configs_that_will_not_do() -> None:
    for wrong in (
        {"url": "ftp://x"},
        {"url": "http://x", "tries": 0},
        {"url": "http://x", "key": "k"},
        {"url": "http://x", "key_variable": "WARREN_BROKER_URL"},
    ):
        with pytest.raises(ValidationError):
            ServiceReward.model_validate(wrong)
    with pytest.raises(ValidationError):
        FunctionReward.model_validate({"function": "no path"})


@pytest.mark.parametrize(
    ("parts", "reason"),
    [
        ((OwnReward(), OwnReward()), "rewards.1: its metric reward/own is that of part 0, too"),
        ((OwnReward(weight=0.0),), "rewards.0: every part has the weight 0"),
        (
            (FunctionReward(function="a:own"), OwnReward()),
            "rewards.1: its metric reward/own is that of part 0",
        ),
    ],
)
def test_parts_that_are_no_rubric(parts: tuple[Reward, ...], reason: str) -> None:
    with pytest.raises(ConfigurationError) as refused:
        EnvironmentConfig(name="guess", rewards=parts)
    assert reason in str(refused.value.details)


def test_what_is_scored_travels_whole() -> None:
    assert Scored.from_json(SCORED.to_json()) == SCORED


class Judge:
    """A service whose next answers are given; it remembers what it was asked."""

    def __init__(self, *answers: Callable[[int], web.Response]) -> None:
        self.answers = list(answers)
        self.sizes: list[int] = []
        self.keys: list[str | None] = []

    async def answer(self, request: web.Request) -> web.Response:
        n_episodes = len((await request.json())["episodes"])
        self.sizes.append(n_episodes)
        self.keys.append(request.headers.get("Authorization"))
        return (self.answers.pop(0) if self.answers else good)(n_episodes)


def good(n_episodes: int) -> web.Response:
    return web.json_response({"rewards": [0.5] * n_episodes})


def status(number: int) -> Callable[[int], web.Response]:
    return lambda _: web.Response(status=number, headers={"Retry-After": "0"})


def saying(text: str) -> Callable[[int], web.Response]:
    return lambda _: web.Response(text=text)


def asking(settings: ServiceReward, *, first_pause_s: float = 0.5) -> RewardService:
    service = TRUSTED.service(settings.url, settings.key_variable)
    return RewardService(service, settings, first_pause_s=first_pause_s)


def served(judge: Judge) -> TestServer:
    app = web.Application()
    app.router.add_post("/", judge.answer)
    return TestServer(app)


async def test_row_26_a_service_gives_the_rewards_of_episodes_that_end_together(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("WARREN_SECRET_JUDGE", "secret\n")  # as files of secrets often end
    judge = Judge()
    async with served(judge) as server:
        url = str(server.make_url("/"))
        client = asking(ServiceReward(url=url, batch=64, key_variable="WARREN_SECRET_JUDGE"))
        rewards = await asyncio.gather(*(client.score(SCORED) for _ in range(100)))
    assert rewards == [0.5] * 100
    assert sorted(judge.sizes) == [36, 64]
    assert set(judge.keys) == {"Bearer secret"}


async def test_row_55_busy_services_are_asked_again() -> None:
    judge = Judge(status(429), status(503), good)
    async with served(judge) as server:
        settings = ServiceReward(url=str(server.make_url("/")), tries=3)
        client = asking(settings, first_pause_s=0.01)
        assert await client.score(SCORED) == 0.5
        judge.answers = [status(500)] * 3
        with pytest.raises(RewardFailed, match=FAILED):
            await client.score(SCORED)
        assert await client.score(SCORED) == 0.5


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (status(404), FAILED),
        (saying("hello"), FAILED),
        (saying("[1]"), "did not answer"),
        (saying('{"rewards": 1}'), "did not answer"),
        (saying('{"rewards": []}'), "did not answer with 1 rewards"),
        (saying('{"rewards": [null]}'), "no finite number"),
        (saying('{"rewards": [NaN]}'), FAILED),
        (saying(f'{{"rewards": [1{"0" * 400}]}}'), FAILED),
    ],
)
async def test_wrong_answers_are_failures(
    answer: Callable[[int], web.Response], reason: str
) -> None:
    async with served(Judge(answer)) as server:
        with pytest.raises(RewardFailed, match=reason):
            await asking(ServiceReward(url=str(server.make_url("/")))).score(SCORED)


async def test_one_that_cannot_be_scored_does_not_hurt_the_others() -> None:
    judge = Judge(saying('{"rewards": [1.0, null]}'))
    async with served(judge) as server:
        client = asking(ServiceReward(url=str(server.make_url("/"))))
        first, second = await asyncio.gather(
            client.score(SCORED), client.score(SCORED), return_exceptions=True
        )
    assert first == 1.0
    assert isinstance(second, RewardFailed)


async def test_a_key_that_is_not_there_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("WARREN_SECRET_JUDGE", raising=False)
    with pytest.raises(ConfigError, match="WARREN_SECRET_JUDGE is not set"):
        asking(ServiceReward(url="http://localhost:1", key_variable="WARREN_SECRET_JUDGE"))


async def test_who_waits_hears_also_of_what_nobody_thought_of(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("WARREN_SECRET_JUDGE", "no\nkey")
    async with served(Judge()) as server:
        settings = ServiceReward(url=str(server.make_url("/")), key_variable="WARREN_SECRET_JUDGE")
        with pytest.raises(RewardFailed, match=FAILED):
            await asking(settings).score(SCORED)


async def test_clients_of_services_are_kept_within_bounds_and_while_they_ask() -> None:
    """One that is asking keeps to its `in_flight`, however many others were asked meanwhile."""
    clients, begun, gate = RewardClients(client_of), asyncio.Queue[None](), asyncio.Event()

    async def slow(request: web.Request) -> web.Response:
        begun.put_nowait(None)
        await gate.wait()
        return good(1)

    app = web.Application()
    app.router.add_post("/slow", slow)
    app.router.add_post("/", Judge().answer)
    async with TestServer(app) as server:

        def asker(path: str, owner: str) -> Asker:
            settings = ServiceReward(url=str(server.make_url(path)), in_flight=1, batch=1)
            service = TRUSTED.service(settings.url, None)
            return Asker(owner, service, settings.model_dump_json())

        async with asyncio.TaskGroup() as group:
            group.create_task(clients.score(asker("/slow", "ann"), SCORED))
            await begun.get()
            for number in range(3 * MAX_IDLE):
                await clients.score(asker("/", f"owner {number}"), SCORED)
            assert len(clients) <= MAX_IDLE + 2
            group.create_task(clients.score(asker("/slow", "ann"), SCORED))
            await clients.score(asker("/", "bob"), SCORED)
            assert begun.empty()
            gate.set()
