"""The environment `textarena` on the real package, whose processes are killed in the middle of episodes."""

import os
from collections.abc import AsyncGenerator
from pathlib import Path

import pytest
from tests.support.hosting import Player, child_pids, hosting
from tests.support.interacting import spec
from tests.support.processes import children, kill_and_wait

from warren_env_worker.foreign import virtual_environments
from warren_env_worker.host.host import Host
from warren_env_worker.host.protocol import Observed, Refused
from warren_schemas.episode import FailureKind

pytestmark = [pytest.mark.ecosystem_all, pytest.mark.server]
ROOT = Path(__file__).parents[3]
CLASS = "warren_env_worker.environments.textarena.environment:TextArena"
GUESSES = [f"[{number}]" for number in range(1, 21)]


@pytest.fixture(scope="module", autouse=True)
def installed(tmp_path_factory: pytest.TempPathFactory) -> None:
    """As `warren env install textarena` does it, in the environment that `make ecosystems` has made."""
    home = tmp_path_factory.mktemp("home")
    os.environ["WARREN_HOME"] = str(home)  # of the children of this test's process
    virtual_environments.folder("textarena").parent.mkdir()
    virtual_environments.folder("textarena").symlink_to(ROOT / ".venv-textarena")
    virtual_environments.note_installed("textarena")


@pytest.fixture
async def host() -> AsyncGenerator[Host]:
    async with hosting(CLASS) as host:
        yield host


def game(host: Host, seed: int = 1, **config: object) -> Player:
    found = {"game": "GuessTheNumber-v0"} | config
    return Player(host, spec("textarena", environment_config=found, seed=seed, max_turns=50))


async def played(player: Player, *, kills: bool = False) -> list[Observed]:
    """One number after the other, to the end."""
    answers = [await player.reset()]
    for guess in GUESSES:
        if kills:
            (child,) = child_pids()
            (server,) = children(child)
            kill_and_wait(children(server))
        answers.append(await player.step(guess))
        assert isinstance(answers[-1], Observed), answers[-1]
        if answers[-1].is_over:
            break
    return [answer for answer in answers if isinstance(answer, Observed)]


@pytest.mark.shows("TextArena", "tasks", "several turns")
async def test_a_game_to_its_end(host: Host) -> None:
    first, *turns = await played(game(host))
    assert "Guess The Number" in first.messages[0][1]
    assert turns[-1].is_over
    assert turns[-1].reward is not None
    assert [turn.reward for turn in turns[:-1]] == [None] * (len(turns) - 1)
    assert all("You are playing" not in turn.messages[0][1] for turn in turns[:-1])


@pytest.mark.shows("TextArena", "tasks")
async def test_the_seed_decides_the_task(host: Host) -> None:
    lengths = {seed: len(await played(game(host, seed=seed))) for seed in range(1, 7)}
    assert lengths[1] == len(await played(game(host, seed=1)))
    assert len(set(lengths.values())) > 1


async def test_a_config_chooses_how_the_move_is_read_and_the_game_gets_it_in_brackets(
    host: Host,
) -> None:
    text = {"tag": "guess", "invalid": {"reward": -1.0}, "template": "Turn {turn}: {observation}"}
    player = game(host, text=text)
    first, none, right, again = [
        await player.reset(),
        *[
            await player.step(said)
            for said in ("[3]", "<guess>3</guess> or [4]", "<guess>3</guess>")
        ],
    ]
    assert isinstance(first, Observed)
    assert first.messages[0][1] == "Say one action in each turn, as <guess>ACTION</guess>."
    assert first.messages[1][1].startswith("Turn 1: ")
    assert isinstance(none, Observed)
    told = "There is no action in that: expected it between <guess> and </guess>."
    assert none.messages[0][1] == f"Turn 2: {told}"
    assert (none.reward, none.metrics) == (-1.0, {"invalid_actions": 1.0})
    assert isinstance(right, Observed)
    assert right.messages[0][1].startswith("Turn 3: [GAME] The target number is ")
    assert isinstance(again, Observed)
    assert "has already guessed the number" in again.messages[0][1]


@pytest.mark.shows("TextArena", "foreign process killed", "retries")
async def test_a_killed_process_of_an_episode_costs_nothing(host: Host) -> None:
    undisturbed = await played(game(host))
    disturbed = await played(game(host), kills=True)
    assert [one.messages for one in disturbed] == [one.messages for one in undisturbed]
    assert disturbed[-1].reward == undisturbed[-1].reward


async def test_a_game_that_cannot_be_played_is_refused(host: Host) -> None:
    for name, reason in (("os:system", "expected the id"), ("No-v0", "No-v0")):
        answer = await game(host, game=name).reset()
        assert isinstance(answer, Refused)
        assert answer.kind is FailureKind.ENVIRONMENT_CONFIG
        assert reason in answer.reason
