"""Episodes at a server of the HTTP protocol that fails in every way that there is."""

from collections import deque
from dataclasses import replace
from typing import Any

import pytest
from tests.support.fake_env_server import FakeEnvServer, Fault

from warren.environment import (
    ConfigError,
    Context,
    Env,
    EpisodeTranscript,
    NoDemonstrations,
    NotReplayable,
    StepResult,
)
from warren.observation import PromptTokens
from warren_env_worker.environments.http.environment import Http
from warren_env_worker.environments.http.server import ServerFailed
from warren_env_worker.environments.nemo_gym.environment import NemoGym
from warren_env_worker.environments.openenv.environment import OpenEnv
from warren_env_worker.environments.ors.environment import Ors
from warren_env_worker.host.environment_class.config import ConfigSchema
from warren_env_worker.host.refusal import Refusal
from warren_env_worker.permissions.permissions import KeyGrant, Permissions, ServiceGrant, acting
from warren_env_worker.permissions.retries import pause_after

KEY = "WARREN_SECRET_ENVS"


async def opened(url: str, index: int | None = 3, **config: Any) -> Http:
    environment = Http(url, **config)
    environment.context = Context.derive(1, index=7)
    try:
        shown = await environment.reset(index, environment.context)
    except BaseException:
        await environment.close()
        raise
    assert [message.role for message in shown] == ["user"]
    return environment


def text(result: StepResult) -> str:
    assert not isinstance(result.observation, str | PromptTokens)
    return result.observation[0].content


async def play(server: FakeEnvServer, *actions: str, **config: Any) -> list[StepResult]:
    async with server.serving() as url:
        environment = await opened(url, **config)
        try:
            return [await environment.step(action) for action in actions]
        finally:
            await environment.close()


async def test_an_episode_whose_beginning_breaks_off_is_deleted() -> None:
    server = FakeEnvServer(breaks_beginnings=True)
    with pytest.raises(ServerFailed, match="it can't be reached, or it failed"):
        await play(server, "a", patience_s=0.01)
    ((path, _),) = {(path, method) for method, path, _ in server.asked if method == "PUT"}
    assert server.asked[-1] == ("DELETE", path, None)
    assert server.episodes == {}


async def test_an_episode_from_its_beginning_to_its_end() -> None:
    server = FakeEnvServer(stepped={"metrics": {"loud": 1.0}})
    results = await play(server, "a", "bb", "ccc", config={"level": 3})
    assert [text(result) for result in results] == ["count 1", "count 3", "count 6"]
    assert [(r.reward, r.done) for r in results] == [(None, False), (None, False), (1.0, True)]
    assert results[0].metrics == {"loud": 1.0}
    ((_, path, body),) = [asked for asked in server.asked if asked[0] == "PUT"]
    assert body | {"seed": 0} == {
        "split": "train", "task": 3, "seed": 0, "member": 0, "config": {"level": 3}
    }  # fmt: skip
    assert 0 <= body["seed"] < 2**53
    assert server.asked[-1] == ("DELETE", path, None)


async def test_the_server_is_told_the_level_where_there_is_one() -> None:
    server = FakeEnvServer()
    async with server.serving() as url:
        environment = Http(url)
        await environment.reset(3, replace(Context.derive(1), level=2))
        await environment.close()
    ((_, _, body),) = [asked for asked in server.asked if asked[0] == "PUT"]
    assert body["level"] == 2


async def test_tasks_are_counted_and_a_split_without_a_number_makes_its_own() -> None:
    async with FakeEnvServer().serving() as url:
        assert await Http(url).tasks("train") == range(5)
        assert await Http(url).tasks("endless") is None
        with pytest.raises(ConfigError, match=r"counter has no split trian; did you mean train\?"):
            await Http(url).tasks("trian")
        environment = await opened(url, index=None)
        await environment.close()


@pytest.mark.parametrize("fault", ["before it runs", "after it ran", "busy", "proxy"])
async def test_what_breaks_off_is_asked_again_and_runs_once(fault: Fault) -> None:
    server = FakeEnvServer(faults=deque([fault]))
    results = await play(server, "a", "bb", "ccc")
    assert [text(result) for result in results] == ["count 1", "count 3", "count 6"]
    assert server.n_ran == 3


async def test_a_lost_episode_is_played_anew() -> None:
    server = FakeEnvServer()
    async with server.serving() as url:
        environment = await opened(url)
        await environment.step("a")
        server.lose_episodes()
        assert text(await environment.step("bb")) == "count 3"
        server.lose_episodes()
        assert (await environment.step("ccc")).done
        await environment.close()
    assert server.n_ran == 1 + 2 + 3


@pytest.mark.parametrize("n_steps", [0, 1])
async def test_a_lost_episode_that_goes_otherwise_is_not_replayable(n_steps: int) -> None:
    server = FakeEnvServer()
    async with server.serving() as url:
        environment = await opened(url)
        for _ in range(n_steps):
            await environment.step("a")
        server.lose_episodes()
        server.offset = 100
        with pytest.raises(
            NotReplayable, match="lost the episode; begun again, it shows something else"
        ):
            await environment.step("bb")
        await environment.close()


async def test_a_server_that_loses_every_episode_is_given_up() -> None:
    server = FakeEnvServer()
    async with server.serving() as url:
        environment = await opened(url)
        server.description["protocol"] = "warren-env/1"
        server.episodes = Forgetful()
        with pytest.raises(ServerFailed, match="lost the episode 3 times"):
            await environment.step("a")
        await environment.close()


class Forgetful(dict[str, list[dict[str, Any]]]):
    def __contains__(self, key: object) -> bool:
        return False


@pytest.mark.parametrize(
    ("fault", "error", "told"),
    [
        ("raised", ServerFailed, "it raised"),
        ("raised mutely", ServerFailed, "it can't be reached, or it failed"),
        ("refused", ConfigError, "it refused"),
    ],
)
async def test_what_the_server_says_of_an_error_is_told_and_nothing_else(
    fault: Fault, error: type[Exception], told: str
) -> None:
    with pytest.raises(error) as raised:
        await play(FakeEnvServer(faults=deque([fault])), "a")
    assert told in str(raised.value)
    assert "secret.py" not in str(raised.value)


@pytest.mark.parametrize(
    ("stepped", "told"),
    [
        ({"rewrad": 1.0}, "rewrad: Extra inputs are not permitted"),
        ({"reward": "much"}, "reward: Input should be a valid number"),
        ({"messages": [{"role": "assistant", "content": "x"}]}, "messages.0.role"),
    ],
)
async def test_an_answer_that_is_not_of_the_protocol_says_where(
    stepped: dict[str, Any], told: str
) -> None:
    with pytest.raises(ServerFailed) as raised:
        await play(FakeEnvServer(stepped=stepped), "a")
    assert "/steps is not of the protocol" in str(raised.value)
    assert told in str(raised.value)


async def test_nobody_there_fails_after_the_patience() -> None:
    async with FakeEnvServer().serving() as url:
        pass
    with pytest.raises(ServerFailed, match="can't be reached"):
        await opened(url, patience_s=0.1)


async def test_a_score_is_asked_for_where_the_server_wants_that() -> None:
    for scores in (True, False):
        async with FakeEnvServer(begun={"scores": scores}).serving() as url:
            environment = await opened(url)
            await environment.step("a")
            score = await environment.score(EpisodeTranscript(()))
            assert score == ({"length": 0.25, "style": 0.5} if scores else None)
            await environment.close()


async def test_demonstrations_ids_and_categories_are_those_of_the_server() -> None:
    server = FakeEnvServer(begun={"demonstration": "7", "task_id": "quiz-7", "category": "easy"})
    async with server.serving() as url:
        environment = await opened(url)
        assert (environment.task_id, environment.category) == ("quiz-7", "easy")
        rng = environment.context.demonstration_rng(0)
        assert environment.demonstrate(rng) == "7"
        await environment.step("a")
        with pytest.raises(NoDemonstrations):
            environment.demonstrate(rng)
        await environment.close()


async def test_the_key_goes_to_episodes_and_not_to_the_list_of_tasks() -> None:
    server = FakeEnvServer()
    async with server.serving() as url:
        grants = (ServiceGrant(url, may_be_private=True),)
        keys = (KeyGrant(KEY, "s3cret-key", (url,)),)
        with acting(Permissions(services=grants, keys=keys)):
            environment = Http(url, key_variable=KEY)
        await environment.tasks("train")
        assert server.keys == {None}
        await environment.reset(0, Context.derive(1))
        await environment.close()
        assert server.keys == {None, "Bearer s3cret-key"}
        with acting(Permissions()), pytest.raises(ConfigError):
            Http(url)


@pytest.mark.parametrize("environment", [Http, NemoGym, Ors, OpenEnv])
def test_a_patience_beyond_a_turn_s_time_is_refused(environment: type[Env[Any]]) -> None:
    config: dict[str, object] = {"url": "http://127.0.0.1:1/", "patience_s": 601.0}
    with pytest.raises(Refusal, match="patience_s: expected a number of at most 600"):
        ConfigSchema(environment).check(config)


def test_a_busy_server_is_left_alone_for_as_long_as_it_asks() -> None:
    pauses_s = [pause_after(n_asked, 0.0) for n_asked in range(1, 9)]
    assert pauses_s == [0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 10.0, 10.0]
    assert pause_after(10**9, 0.0) == 10.0
    assert pause_after(1, 60.0) == 60.0
