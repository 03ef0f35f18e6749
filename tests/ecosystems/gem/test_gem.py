"""The environment `gem` on the real package, whose processes are killed in the middle of episodes."""

import asyncio
import os
import re
import signal
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest
from tests.support.hosting import Player, child_pids, hosting
from tests.support.interacting import spec
from tests.support.patience import PATIENCE_S
from tests.support.processes import children, kill_and_wait, until_dead

from warren_env_worker.foreign import virtual_environments
from warren_env_worker.host.host import Host
from warren_env_worker.host.protocol import Observed, Refused
from warren_schemas.episode import FailureKind

pytestmark = [pytest.mark.ecosystem_all, pytest.mark.server]
ROOT = Path(__file__).parents[3]
CLASS = "warren_env_worker.environments.gem.environment:Gem"
NUMBER = "game:GuessTheNumber-v0-easy"
GUESSES = [f"I say \\boxed{{{number}}}" for number in range(1, 11)]
BEGUN = (
    NUMBER, "game:Mastermind-v0-easy", "game:Minesweeper-v0-easy", "game:FifteenPuzzle-v0-hard",
    "game:Sudoku-v0-easy", "game:TowerofHanoi-v0-easy", "game:Game2048-v0-easy", "game:Sokoban-v0-easy",
    "game:Crosswords-v0-easy", "rg:isomorphic_strings",
)  # fmt: skip
"""All but those that download a list of words, and a puzzle that is made from a set of texts."""


@pytest.fixture(scope="module", autouse=True)
def installed(tmp_path_factory: pytest.TempPathFactory) -> None:
    """As `warren env install gem` does it, in the environment that `make ecosystems` has made."""
    home = tmp_path_factory.mktemp("home")
    os.environ["WARREN_HOME"] = str(home)  # of the children of this test's process
    virtual_environments.folder("gem").parent.mkdir()
    virtual_environments.folder("gem").symlink_to(ROOT / ".venv-gem")
    virtual_environments.note_installed("gem")


@pytest.fixture
async def host() -> AsyncGenerator[Host]:
    async with hosting(CLASS) as host:
        yield host


def episode(host: Host, env: str = NUMBER, seed: int = 1, **config: object) -> Player:
    return Player(
        host, spec("gem", environment_config={"env": env} | config, seed=seed, max_turns=50)
    )


async def shown(player: Player, *actions: str) -> list[Observed]:
    """To the end, or as far as the actions go."""
    answers = [await player.reset()]
    for action in actions:
        answers.append(await player.step(action))
        assert isinstance(answers[-1], Observed), answers[-1]
        if answers[-1].is_over:
            break
    return [answer for answer in answers if isinstance(answer, Observed)]


def last_text(observed: Observed) -> str:
    return observed.messages[-1][1] if observed.messages else ""


@pytest.mark.shows("GEM", "tasks", "several turns")
async def test_a_game_to_its_end(host: Host) -> None:
    first, *turns = await shown(episode(host, arguments={"max_turns": 20}), *GUESSES)
    assert last_text(first).startswith("You are playing Guess The Number.")
    assert "between 1 and 10 (inclusive) within 20 turns" in last_text(first)
    assert last_text(first).endswith("\nEnter your next guess.")
    assert last_text(turns[0]).startswith("At turn 1, you guessed 1")
    assert (turns[-1].is_over, turns[-1].is_truncated) == (True, False)
    assert [turn.reward for turn in turns] == [0.0] * (len(turns) - 1) + [1.0]
    assert last_text(turns[-1]).startswith("Congratulations!")


@pytest.mark.shows("GEM", "tasks")
async def test_the_same_seed_shows_the_same_in_another_process_and_another_seed_does_not() -> None:
    firsts: list[list[str]] = []
    for seed in (1, 1, 2):
        async with hosting(CLASS) as host:
            players = [episode(host, env, seed) for env in BEGUN]
            firsts.append([last_text((await shown(player))[0]) for player in players])
    once, again, other = firsts
    assert once == again
    assert sum(one != another for one, another in zip(once, other, strict=True)) >= 4


@pytest.mark.shows("GEM", "tasks")
async def test_a_puzzle_of_reasoning_gym_is_scored_by_its_boxed_answer(host: Host) -> None:
    for is_right in (True, False):
        player = episode(host, "rg:chain_sum", arguments={"size": 20})
        (asked,) = await shown(player)
        terms = re.findall(r"[+-]? ?\d+", last_text(asked))
        total = sum(int(term.replace(" ", "")) for term in terms)
        answered = await player.step(f"\\boxed{{{total}}}" if is_right else f"{total}")
        assert isinstance(answered, Observed)
        assert (answered.is_over, answered.is_truncated) == (True, False)
        assert answered.reward == float(is_right)
        assert "TERMINAL" not in last_text(answered)


async def test_an_answer_that_a_scorer_stumbles_over_is_wrong_and_no_failure(host: Host) -> None:
    player = episode(host, "rg:game_of_life")
    await shown(player)
    answered = await player.step("\\boxed{{}}")
    assert isinstance(answered, Observed)
    assert (answered.is_over, answered.reward) == (True, 0.0)


async def test_a_config_that_cannot_be_played_is_refused(host: Host) -> None:
    refused: tuple[tuple[str, dict[str, Any], str], ...] = (
        ("os:system", {}, "none of GEM's games"),
        ("math:GSM8K", {}, "the environment math reads data sets"),
        ("code:Taco8k", {}, "none of GEM's games"),
        ("../game", {}, "expected the id of an environment"),
        ("game:NoSuch-v0", {}, "NoSuch"),
        ("rg:countdown", {}, "its scorer runs what the policy says"),
        ("rg:game_of_life_halting", {}, "it rewards every answer"),
        (NUMBER, {"arguments": {"max_turn": 5}}, "takes no max_turn; it takes min_number"),
    )
    for env, config, reason in refused:
        answer = await episode(host, env, **config).reset()
        assert isinstance(answer, Refused)
        assert (answer.kind, answer.is_retryable) == (FailureKind.ENVIRONMENT_CONFIG, False)
        assert reason in answer.reason


async def test_a_config_chooses_how_the_action_is_read_and_the_game_gets_it_in_a_box(
    host: Host,
) -> None:
    text = {"pattern": r"(?s).*GUESS (\d+)", "template": "{history}\n{observation}", "history": 3}
    first, none, guess = await shown(
        episode(host, NUMBER, text=text), "It is 3.", "GUESS 4, no, GUESS 3"
    )
    assert [role for role, *_ in first.messages] == ["user"]
    assert last_text(none).startswith("[1] You are playing")
    assert r"expected what matches (?s).*GUESS (\d+)." in last_text(none)
    assert "[1] > (none)" in last_text(guess)
    assert "you guessed 3" in last_text(guess)
    assert (none.after, guess.after) == (0, 0)
    assert (none.reward, guess.metrics) == (None, {"invalid_actions": 1.0})


@pytest.mark.shows("GEM", "foreign process killed", "retries")
async def test_a_killed_process_of_an_episode_costs_nothing(host: Host) -> None:
    undisturbed = await shown(episode(host, "game:Minesweeper-v0-hard", 3), *DIGS)
    player = episode(host, "game:Minesweeper-v0-hard", 3)
    answers = await shown(player)
    for action in DIGS[: len(undisturbed) - 1]:
        kill_and_wait(children(_fork_server()))
        answer = await player.step(action)
        assert isinstance(answer, Observed)
        answers.append(answer)
    assert [one.messages for one in answers] == [one.messages for one in undisturbed]
    assert [one.reward for one in answers] == [one.reward for one in undisturbed]


@pytest.mark.shows("GEM", "env worker killed")
async def test_an_env_worker_that_dies_leaves_no_process_behind_and_another_goes_on() -> None:
    guess = "\\boxed{1}"
    async with hosting(CLASS) as undisturbed:
        expected = await shown(episode(undisturbed, seed=2), guess, guess)
    async with hosting(CLASS) as lost:
        player = episode(lost, seed=2)
        await shown(player, guess)
        ours = [_fork_server(), *children(_fork_server())]
        for pid in child_pids():
            os.kill(pid, signal.SIGKILL)
        async with asyncio.timeout(PATIENCE_S):
            for pid in ours:
                await until_dead(pid)
        async with hosting(CLASS) as other:
            answer = await player.moved_to(other).step(guess)
    assert isinstance(answer, Observed)
    assert "which has been already guessed before" in last_text(answer)
    assert answer.messages == expected[-1].messages


DIGS = [f"\\boxed{{reveal {row} {column}}}" for row, column in ((4, 4), (0, 0), (7, 7), (0, 7))]


def _fork_server() -> int:
    (host,) = child_pids()
    (server,) = children(host)
    return server
