"""`warren env serve` on a real host: the protocol is kept, whatever comes twice, late or wrongly."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import pytest
from tests.support.brokers import eventually
from tests.support.patience import PATIENCE_S

from warren.environment import Context, NoDemonstrations
from warren.errors import ConfigurationError
from warren_env_worker.check.conformance import Looks
from warren_env_worker.check.finding import Mark
from warren_env_worker.environments.http.environment import Http
from warren_env_worker.environments.http.server import EnvServer
from warren_env_worker.http_server.service import serving
from warren_env_worker.http_server.settings import HttpServerSettings
from warren_env_worker.permissions.permissions import TRUSTED
from warren_env_worker.settings import EnvWorkerSettings

LETTERS = "tests.support.environments:Letters"


@asynccontextmanager
async def served(reference: str = LETTERS, **settings: Any) -> AsyncGenerator[str]:
    hosting = EnvWorkerSettings(environments=(reference,), only_named=True)
    async with serving(HttpServerSettings(port=0, **settings), hosting) as url:
        yield url


@asynccontextmanager
async def asking(url: str) -> AsyncGenerator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession(url) as session:
        yield session


async def put(session: aiohttp.ClientSession, key: str, **body: Any) -> tuple[int, Any]:
    async with session.put(f"/episodes/{key}", json={"seed": 1, **body}) as answer:
        return answer.status, await answer.json()


async def post(session: aiohttp.ClientSession, key: str, turn: int, action: str) -> tuple[int, Any]:
    body = {"turn": turn, "action": action}
    async with session.post(f"/episodes/{key}/steps", json=body) as answer:
        return answer.status, await answer.json()


async def test_it_keeps_to_the_protocol() -> None:
    async with served() as url:
        server = EnvServer(TRUSTED.service(url, None), patience_s=PATIENCE_S, answer_s=PATIENCE_S)
        found = [each async for each in Looks(server, {"n_turns": 2}, "train").findings()]
        await server.close()
    assert len(found) == 8
    assert all(each.mark is Mark.GOOD for each in found), found


async def test_the_environment_http_plays_it_as_if_it_were_here() -> None:
    async with served(config={"n_turns": 2}) as url:
        environment = Http(url, config={"letters": "ab"})
        context = Context.derive(7)
        shown = await environment.reset(None, context)
        letter = shown[0].content
        assert letter in "ab"
        assert environment.demonstrate(context.demonstration_rng(0)) in "ab"
        first = await environment.step(letter)
        assert (first.reward, first.done, first.metrics) == (1.0, False, {"right": 1.0})
        assert not isinstance(first.observation, str)
        last = await environment.step("wrong")
        assert (last.reward, last.done, last.truncated) == (0.0, True, False)
        with pytest.raises(NoDemonstrations):
            environment.demonstrate(context.demonstration_rng(1))
        await environment.close()


async def test_tasks_of_data_are_counted_and_told_by_their_ids_and_levels_arrive() -> None:
    async with served("tests.support.environments:Sorted") as url, asking(url) as session:
        async with session.get("/") as answer:
            assert (await answer.json())["splits"] == {"train": 8, "test": 8}
        status, begun = await put(session, "a", task=4)
        assert (status, begun["task_id"], begun["category"]) == (200, "letter e", "vowel")
        assert begun["messages"] == [{"role": "user", "content": "e"}]
        assert "demonstration" not in begun
        status, refused = await put(session, "b", task=8)
        assert (status, refused["error"]) == (422, "there is no task 8 of train; GET / has all")
    async with served("tests.support.environments:Levelled") as url, asking(url) as session:
        _, begun = await put(session, "a", level=3)
        assert begun["messages"][0]["content"] == "level 3"


async def test_what_comes_twice_is_answered_as_before_and_played_once() -> None:
    async with served(config={"letters": "ab"}) as url, asking(url) as session:
        firsts = await asyncio.gather(*(put(session, "a") for _ in range(4)))
        assert len({str(first) for first in firsts}) == 1
        letter = firsts[0][1]["messages"][0]["content"]
        again = await asyncio.gather(*(post(session, "a", 1, letter) for _ in range(4)))
        assert len({str(answer) for answer in again}) == 1
        assert again[0][1]["reward"] == 1.0
        assert await post(session, "a", 1, "something else") == again[0]
        assert (await post(session, "a", 3, letter))[0] == 422
        status, second = await post(session, "a", 2, letter)
        assert (status, second["reward"]) == (200, 0.0), "the next letter was asked for"
        async with session.delete("/episodes/a") as answer:
            assert answer.status == 200
        assert (await post(session, "a", 2, letter))[0] == 404


async def test_what_is_wrong_with_a_request_is_422_and_what_fails_the_episode_500() -> None:
    async with served("tests.support.environments:Hostile") as url, asking(url) as session:
        status, refused = await put(session, "a", config={"deeed": "raise"})
        assert status == 422
        assert "did you mean deed?" in refused["error"]
        await put(session, "b", config={"deed": "raise"})
        failed = await post(session, "b", 1, "evil")
        assert failed[0] == 500
        assert await post(session, "b", 1, "evil") == failed
        async with session.put("/episodes/c", data=b"{") as answer:
            assert answer.status == 422
        async with session.get("/episodes") as answer:
            assert answer.status == 404


async def test_a_full_server_asks_to_come_again_and_a_key_is_asked_for() -> None:
    async with served(capacity=1, api_key="secret") as url, asking(url) as session:
        assert (await put(session, "a"))[0] == 401
        async with session.get("/") as answer:
            assert answer.status == 200, "the description is for everybody"
        session.headers["Authorization"] = "Bearer secret"
        assert (await put(session, "a"))[0] == 200
        async with session.put("/episodes/b", json={"seed": 1}) as answer:
            assert (answer.status, answer.headers["Retry-After"]) == (503, "1")
        async with session.delete("/episodes/a") as answer:
            assert answer.status == 200
        assert (await put(session, "b"))[0] == 200


async def test_an_episode_of_too_many_turns_is_truncated_and_scored() -> None:
    async with served(max_turns=1) as url, asking(url) as session:
        await put(session, "a")
        _, last = await post(session, "a", 1, "a")
        assert (last["done"], last["truncated"]) == (False, True)


async def test_what_cannot_be_served_says_so_before_anybody_asks() -> None:
    with pytest.raises(ConfigurationError, match="can't be served"):
        async with served(config={"n_turnz": 2}):
            pass
    with pytest.raises(ConfigurationError, match="compares the episodes of a group"):
        async with served("tests.support.comparing_environments:Compared"):
            pass


async def test_an_episode_that_nobody_asks_for_is_forgotten() -> None:
    async with served(idle_s=0.05, capacity=1) as url, asking(url) as session:
        await put(session, "a")

        async def is_forgotten() -> bool:
            return (await put(session, "b"))[0] == 200

        await eventually(is_forgotten)
