"""`warren ors-server` as the client of ors-sdk sees it, and as ours does: as if hosted directly."""

import json
from collections.abc import Generator

import pytest
from tests.ecosystems.ors_server.environments import Vault
from tests.ecosystems.ors_server.serving import ROOT, OrsServer, client_program, ors_server
from tests.support.patience import PATIENCE_S

import warren.testing
from warren.environment import Context, Env
from warren.testing import Policy
from warren_env_worker.environments.arithmetic import Arithmetic
from warren_env_worker.environments.guess import Guess
from warren_env_worker.environments.ors.environment import Ors
from warren_env_worker.environments.ors.server import OrsFailed
from warren_env_worker.permissions.permissions import KeyGrant, Permissions, acting

pytestmark = [pytest.mark.ecosystem, pytest.mark.server]
SEED = 7
KEY = "WARREN_SECRET_ORS"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Generator[OrsServer]:
    folder = tmp_path_factory.mktemp("served")
    options = ("--seed", str(SEED), "--api-key", "key")
    guess = {"config": {"high": 99, "guesses": 4}, "n_tasks": 12, "splits": ["train"]}
    with (
        ors_server(folder, *options, guess=guess) as started,
        acting(Permissions(is_trusted=True, keys=(KeyGrant(KEY, "key", None),))),
    ):
        yield started


def theirs(server: OrsServer, environment: str, **config: object) -> Ors:
    of = {"stop": 1000, "key_variable": KEY, "patience_s": PATIENCE_S} | config
    return Ors(server.url, environment, **of)  # pyright: ignore[reportArgumentType]


def say(word: str) -> Policy:
    return lambda _: word


def act(word: str) -> Policy:
    said = json.dumps({"name": "act", "arguments": {"action": word}})
    return lambda _: f"<tool_call>{said}</tool_call>"


@pytest.mark.shows("ORS server", "tasks", "tools", "several turns")
def test_the_client_of_ors_sdk(server: OrsServer) -> None:
    seen = client_program(ROOT / ".venv-ors" / "bin" / "python", "client_ors.py", server.url)
    assert seen == {
        "splits": ["train", "test"],
        "n": 20,
        "ids": ["code-1003", "code-1004"],
        "tools": ["kaput", "look", "answer"],
        "prompt": ["text", "image", "text", "text", "text"],
        "looked": ["3", 0.1, False],
        "refused": "Error: look: place: expected a whole number, got 'x'",
        "ended": [1.0, True],
        "guess": "?",
        "guessed": [[None, False], [None, False], [None, False], [0.0, True]],
    }


@pytest.mark.shows("ORS server", "tasks")
async def test_a_task_is_called_the_same_as_if_hosted_directly(server: OrsServer) -> None:
    environment = theirs(server, "vault")
    environment.context = Context.derive(0, "train", 3)
    await environment.reset(3, environment.context)
    await environment.close()
    assert environment.task_id == "code-1003"


@pytest.mark.shows("ORS server", "tasks")
@pytest.mark.parametrize("index", [0, 3, 11])
def test_a_task_of_one_turn_is_the_same_as_if_hosted_directly(
    server: OrsServer, index: int
) -> None:
    ours: list[Env[object]] = [Arithmetic(), theirs(server, "arithmetic")]  # pyright: ignore[reportAssignmentType]
    direct, served = (warren.testing.play(env, say("42"), seed=SEED, index=index) for env in ours)
    assert served.messages == direct.messages
    assert served.reward == direct.reward


@pytest.mark.parametrize("index", [0, 3, 11])
def test_a_task_made_from_a_seed_is_the_same_too(server: OrsServer, index: int) -> None:
    hosted = Guess(high=99, guesses=4)
    direct = warren.testing.play(hosted, lambda _: "50", seed=SEED, index=index)
    served = warren.testing.play(theirs(server, "guess"), act("50"), index=index)
    assert [(r.reward, r.done) for r in served.results] == [
        (r.reward, r.done) for r in direct.results
    ]
    shown = [m.content for m in served.messages if m.role == "tool" and m.content]
    assert shown == [m.content for m in direct.messages[1:] if m.role == "user"]


@pytest.mark.shows("ORS server", "tools", "images")
def test_tools_images_and_a_system_prompt(server: OrsServer) -> None:
    look = '<tool_call>{"name": "look", "arguments": {"place": 1}}</tool_call>'
    actions = {0: look, 1: look, 2: "1003"}
    said = iter(actions.values())
    direct = warren.testing.play(Vault(), lambda _: next(said), index=3)
    again = iter(actions.values())
    served = warren.testing.play(theirs(server, "vault"), lambda _: next(again), index=3)
    assert served.messages[0].content.startswith("You open vaults.\n\n# Tools")
    assert served.messages[1:] == direct.messages[1:]
    assert [r.reward for r in served.results] == [0.1, 0.1, 1.0]


def test_an_environment_that_is_named_by_a_header(server: OrsServer) -> None:
    named = (theirs(server, name) for name in ("anybody/Arithmetic", "arithmetic"))
    first, second = (warren.testing.play(env, say("7"), index=2) for env in named)
    assert first == second


def test_who_lacks_the_key_is_told_nothing(server: OrsServer) -> None:
    with pytest.raises(OrsFailed, match="tasks are counted without the key"):
        warren.testing.play(theirs(server, "guess", stop=None), act("1"))
