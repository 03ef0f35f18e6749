"""The environment `openenv` on the real server of `openenv` 0.10.0, which is killed in the middle of episodes."""

import asyncio
import json
import logging
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest
from tests.ecosystems.keyed import KEY
from tests.ecosystems.real_server import RealServer, killing, real_server, saying
from tests.support.patience import PATIENCE_S

import warren.testing
from warren.environment import ConfigError, Context, NotReplayable
from warren.testing import Policy
from warren_env_worker.environments.openenv.environment import OpenEnv
from warren_env_worker.environments.openenv.server import OpenEnvFailed
from warren_env_worker.permissions.permissions import KeyGrant, Permissions, acting

pytestmark = [pytest.mark.ecosystem_all, pytest.mark.server]
PROGRAM = Path(__file__).with_name("server.py")
DIGITS = ("0", "1", "2", "3")
SECRET = "WARREN_SECRET_GYM"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Generator[RealServer]:
    with real_server("openenv", PROGRAM, tmp_path_factory.mktemp("openenv")) as started:
        yield started


def environment(server: RealServer, name: str, **config: Any) -> OpenEnv:
    return OpenEnv(f"{server.url}{name}/", patience_s=PATIENCE_S, **config)


def play(
    server: RealServer, policy: Policy, name: str = "vault", **config: Any
) -> warren.testing.Episode:
    return warren.testing.play(environment(server, name, **config), policy, index=3)


def call(name: str, **arguments: object) -> str:
    said = json.dumps({"name": name, "arguments": arguments})
    return f"<tool_call>\n{said}\n</tool_call>"


def told(episode: warren.testing.Episode) -> list[str]:
    return [message.content for message in episode.messages if message.role in ("tool", "user")]


@pytest.mark.shows("OpenEnv", "tasks", "several turns")
def test_a_task_from_the_prompt_to_the_end(server: RealServer) -> None:
    episode = play(
        server, saying("3", "1003"), tasks_of="Vault", shown=("text",), reset={"hint": "be quick"}
    )
    assert told(episode) == ["Open the vault: be quick.", "3", "open"]
    assert [(result.reward, result.done) for result in episode.results] == [
        (0.1, False),
        (1.0, True),
    ]


@pytest.mark.parametrize("given", [0.5, 0.0, None])
def test_a_reward_at_reset_counts_with_the_first_action(
    server: RealServer, given: float | None
) -> None:
    episode = play(server, saying("3", "1003"), tasks_of="Vault", reset={"reward": given})
    assert [result.reward for result in episode.results] == [0.1 + (given or 0.0), 1.0]


@pytest.mark.shows("OpenEnv", "tasks")
async def test_tasks_are_those_of_the_server(server: RealServer) -> None:
    assert await environment(server, "vault", tasks_of="Vault").tasks("test") == list(range(5))
    assert await environment(server, "vault").tasks("test") is None
    with pytest.raises(ConfigError, match="the server has no split trian; did you mean train"):
        await environment(server, "vault", tasks_of="Vault").tasks("trian")


@pytest.mark.shows("OpenEnv", "tasks")
@pytest.mark.parametrize(
    ("name", "of", "id"), [("vault", "Vault", "train-code-1"), ("nameless", "Nameless", None)]
)
async def test_tasks_have_the_ids_that_the_server_gives_them(
    server: RealServer, name: str, of: str, id: str | None
) -> None:
    played = environment(server, name, tasks_of=of)
    await played.reset(1, Context.derive(0, "train", 1))
    await played.close()
    assert played.task_id == id


async def test_a_run_may_name_tasks_by_these_ids(server: RealServer) -> None:
    loader = environment(server, "vault", tasks_of="Vault")
    loader.wants_task_ids = True
    tasks = await loader.tasks("test")
    assert tasks is not None
    assert [loader.id_of(task) for task in tasks][3:] == ["test-code-3", "test-code-4"]


def test_without_tasks_the_seed_decides_and_all_fields_are_shown(server: RealServer) -> None:
    once, again = (play(server, saying("0", "no")) for _ in range(2))
    assert once.messages == again.messages
    assert told(once)[1].endswith("\nn_steps: 1")
    assert once.results[-1].reward == 0.0


@pytest.mark.shows("OpenEnv", "tools", "several turns")
def test_tools_of_the_environment(server: RealServer) -> None:
    actions = (
        call("price", article="tea") + call("pice"),
        call("price"),
        call("buy", article="tea", n=2) + call("price", article="tea"),
    )
    episode = play(server, saying(*actions), "shop", shown=("metadata.prompt",))
    assert "The price of an article." in episode.messages[0].content
    first, price, unknown, wrong, bought = told(episode)
    assert (first, price, bought) == ("Buy two teas.", "3", "2 bought")
    assert unknown == "Error: there is no tool 'pice'; did you mean price?"
    assert wrong.startswith("Error: 1 validation error")
    assert (episode.reward, episode.results[-1].done) == (1.0, True)
    counts = {"tool_calls": 2.0, "tool_errors": 2.0, "parse_errors": 0.0, "steps": 2.0}
    assert episode.results[-1].metrics == counts


@pytest.mark.shows("OpenEnv", "tools")
def test_an_action_with_fields_is_a_tool(server: RealServer) -> None:
    actions = (call("go", x=1), call("go", x=1, y=2))
    episode = play(server, saying(*actions), "point", action_tool="go", shown=("text",))
    assert "Go there." in episode.messages[0].content
    assert told(episode) == ["go to 1, 2", "Error: y: Field required", "at 1, 2"]
    assert episode.results[-1].done
    assert play(server, saying("I'd rather not."), "point").results[-1].truncated


@pytest.mark.shows("OpenEnv", "secrets")
def test_a_key_reaches_the_server_and_nobody_else(
    server: RealServer, caplog: pytest.LogCaptureFixture
) -> None:
    """Also where its session is begun anew."""
    caplog.set_level(logging.DEBUG)
    policy = killing(server, ["0", "1003"], before=1)
    task = {"split": "train", "index": 3}  # of the list of tasks it would be asked without the key
    with acting(Permissions(is_trusted=True, keys=(KeyGrant(SECRET, KEY, None),))):
        episode = play(server, policy, "keyed", key_variable=SECRET, reset=task)
        with pytest.raises(OpenEnvFailed) as refused:
            play(server, saying(), "keyed", reset=task)
    assert [(result.reward, result.done) for result in episode.results] == [(0.1, False), (1.0, True)]  # fmt: skip
    assert f"{server.url}keyed/" in caplog.text
    assert KEY not in caplog.text + repr(episode) + repr(refused.value)


def test_an_environment_that_raises_fails_the_episode(server: RealServer) -> None:
    with pytest.raises(OpenEnvFailed, match="failed: kaput"):
        play(server, saying("kaput"))
    with pytest.raises(ConfigError, match="an action has no field word; it has words"):
        play(server, saying(), action_field="word")


async def test_a_session_that_is_one_too_many_is_waited_for(server: RealServer) -> None:
    first, second = environment(server, "single"), environment(server, "single")
    await first.reset(None, Context.derive(1))
    waiting = asyncio.create_task(second.reset(None, Context.derive(1)))
    await first.step("0")
    await first.close()
    assert (await waiting)[0].content.startswith("text: Open the vault")
    await second.close()


@pytest.mark.shows("OpenEnv", "foreign process killed", "retries")
def test_a_killed_server_is_waited_for_and_its_session_played_anew(server: RealServer) -> None:
    actions = ["0", "1", "2", "1003"]
    undisturbed = play(server, saying(*actions), tasks_of="Vault")
    episode = play(server, killing(server, actions, before=3), tasks_of="Vault")
    assert episode.messages == undisturbed.messages
    assert episode.reward == undisturbed.reward


@pytest.mark.shows("OpenEnv", "retries")
def test_a_killed_server_that_goes_on_otherwise_fails_the_episode(server: RealServer) -> None:
    with pytest.raises(NotReplayable, match="it answers action 1 otherwise"):
        play(server, killing(server, ["0", "0"], before=1), "pid")
