"""The environment `alfworld` on the real package, killed in the middle of episodes."""

import asyncio
import json
import os
import signal
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest
from tests.ecosystems.alfworld.installed import CLASS, PYTHON, fork_server, home
from tests.support.hosting import Player, child_pids, hosting
from tests.support.interacting import demonstration, spec
from tests.support.patience import PATIENCE_S
from tests.support.processes import children, kill_and_wait, until_dead

from warren_env_worker.environments.alfworld.environment import SPLIT_SIZES, TASK_TYPES
from warren_env_worker.foreign import virtual_environments
from warren_env_worker.host.host import Host
from warren_env_worker.host.protocol import Observed, Refused
from warren_schemas.episode import EpisodeSpec, FailureKind, TaskRef

__all__ = ["home"]
pytestmark = [pytest.mark.ecosystem_all, pytest.mark.server]
AUDIT = Path(__file__).parent / "audit.py"
UNHEARD = (
    "put apple 1 in/on fridge 1",
    "go",
    "",
    "look\x1b",
    "{1/0}",
    "#intro#",
    "look " * 100,
    "_pddl",
)
N_GAMES = 60


@pytest.fixture
async def host() -> AsyncGenerator[Host]:
    async with hosting(CLASS) as host:
        yield host


def played(index: int = 0, split: str = "train", **config: Any) -> dict[str, Any]:
    """Of an episode: the game of this number."""
    task = TaskRef(index=index, split=split, shuffle=False)
    return {"environment_config": config, "task": task, "max_turns": 100}


def episode(host: Host, index: int = 0, split: str = "train", **config: Any) -> Player:
    return Player(host, spec("alfworld", **played(index, split, **config)))


def shown_by_the_expert(index: int, split: str = "train") -> EpisodeSpec:
    return demonstration("alfworld", **played(index, split))


async def shown(player: Player, *actions: str) -> list[Observed]:
    answers = [await player.reset(), *[await player.step(action) for action in actions]]
    assert all(isinstance(answer, Observed) for answer in answers), answers
    return [answer for answer in answers if isinstance(answer, Observed)]


async def won(player: Player) -> list[Observed]:
    """What follows where the expert plays."""
    (last,) = turns = await shown(player)
    while not last.is_over:
        assert last.demonstration is not None
        last = await player.step(last.demonstration)
        assert isinstance(last, Observed)
        turns.append(last)
    return turns


async def ways(host: Host, index: int) -> list[str]:
    """The commands that win this game."""
    return [
        turn.demonstration
        for turn in await won(Player(host, shown_by_the_expert(index)))
        if turn.demonstration
    ]


def last_text(observed: Observed) -> str:
    return observed.messages[-1][1] if observed.messages else ""


@pytest.mark.shows("ALFWorld", "tasks", "several turns")
@pytest.mark.parametrize("index", range(len(TASK_TYPES)))
async def test_a_task_of_each_type_is_done_by_commands_and_rewarded_at_its_end(
    host: Host, index: int
) -> None:
    first, *turns = await won(Player(host, shown_by_the_expert(index)))
    assert first.category == TASK_TYPES[index]
    assert first.messages[0][1].startswith("You do a household task in a room")
    assert last_text(first).startswith("You are in the middle of a room.")
    assert "Your task is to: " in last_text(first)
    assert [turn.reward for turn in turns] == [0.0] * (len(turns) - 1) + [1.0]
    assert turns[-1].metrics == {"won": 1.0, "steps": len(turns), "invalid_commands": 0.0}


@pytest.mark.shows("ALFWorld", "tasks")
async def test_games_can_be_won_and_the_unseen_rooms_are_none_of_those_of_training() -> None:
    found = await audited(N_GAMES, 2)
    played = [game for game in found if "won" in game]
    assert [(game["won"], game["commands"] > 2) for game in played] == [(True, True)] * 6
    assert len({game["problem"] for game in found}) == 3 * N_GAMES
    of = {name: {game["room"] for game in found if game["split"] == name} for name in SPLIT_SIZES}
    assert not of["valid_unseen"] & (of["train"] | of["valid_seen"])
    assert of["valid_seen"] & of["train"]
    again = [{**game, "won": None, "commands": None} for game in await audited(N_GAMES, 0)]
    assert again == [{**game, "won": None, "commands": None} for game in found]


async def audited(n_games: int, n_played: int) -> list[dict[str, Any]]:
    """By a process of its own, whose sets have another order each time."""
    command = (PYTHON, AUDIT, virtual_environments.PROGRAMS, str(n_games), str(n_played))
    process = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE)
    told, _ = await process.communicate()
    assert process.returncode == 0
    return [json.loads(line) for line in told.splitlines()]


async def test_what_is_no_command_changes_nothing_and_what_would_be_one_is_listed(
    host: Host,
) -> None:
    first, *answers = await shown(episode(host, list_commands=True), *UNHEARD, "Inventory.")
    commands = last_text(first).partition("\n\nCommands: ")[2].split(", ")
    assert {"look", "inventory"} < set(commands)
    for answer in answers[:-1]:
        assert last_text(answer).partition("\n")[0] == "Nothing happens."
        assert answer.reward == 0.0
    assert last_text(answers[-1]).startswith("You are not carrying anything.")
    assert answers[-1].metrics == {"won": 0.0, "steps": 1.0, "invalid_commands": len(UNHEARD)}


async def test_a_config_chooses_how_commands_are_read_shown_and_demonstrated(host: Host) -> None:
    text = {"tag": "do", "template": "{first}\n\n{history}\n{observation}", "history": 1}
    of = demonstration("alfworld", **played(0, text=text))
    first, *turns = await won(Player(host, of))
    assert first.demonstration is not None
    assert first.demonstration.startswith("<do>")
    assert turns[-1].metrics == {"won": 1.0, "steps": len(turns), "invalid_commands": 0.0}
    task = last_text(first).partition("\n\n(none)\n")[0]
    assert "Your task is to: " in task
    assert last_text(turns[1]).startswith(f"{task}\n\n[2] ")
    assert {turn.after for turn in turns[:-1]} == {0}
    unreadable = demonstration("alfworld", **played(0, text={"pattern": "do (.*)"}))
    refused = await Player(host, unreadable).reset()
    assert isinstance(refused, Refused)
    assert "the expert can't write what a pattern reads" in refused.reason


async def test_a_run_of_some_types_plays_the_same_games_of_these(host: Host) -> None:
    all_types = await shown(episode(host, 9))
    of_heating = await shown(episode(host, 1, task_types=["pick_heat_then_place_in_recep"]))
    assert [turn.messages for turn in of_heating] == [turn.messages for turn in all_types]


async def test_a_config_that_cannot_be_played_is_refused(host: Host) -> None:
    refused: tuple[tuple[dict[str, Any], str], ...] = (
        ({"split": "test"}, "split: there are train, valid_seen, valid_unseen"),
        ({"games": 0}, "games"),
        ({"games": 10**7}, "games: expected from 1 to 1,000,000"),
        ({"games": 3, "task_types": ["pick_two_obj_and_place"]}, "none of the 3 games"),
        ({"task_types": ["pick_three"]}, "task_types"),
    )
    for config, reason in refused:
        answer = await episode(host, **config).reset()
        assert isinstance(answer, Refused)
        assert (answer.kind, answer.is_retryable) == (FailureKind.ENVIRONMENT_CONFIG, False)
        assert reason in answer.reason


@pytest.mark.shows("ALFWorld", "foreign process killed", "retries")
async def test_a_killed_process_of_an_episode_costs_nothing(host: Host) -> None:
    commands = await ways(host, index=2)
    undisturbed = await shown(episode(host, 2), *commands)
    player = episode(host, 2)
    answers = await shown(player)
    for command in commands:
        kill_and_wait(children(fork_server()))  # of all episodes
        answer = await player.step(command)
        assert isinstance(answer, Observed)
        answers.append(answer)
    assert [one.messages for one in answers] == [one.messages for one in undisturbed]
    assert [one.reward for one in answers] == [one.reward for one in undisturbed]


@pytest.mark.shows("ALFWorld", "foreign process killed", "retries")
async def test_a_killed_fork_server_costs_nothing(host: Host) -> None:
    undisturbed = await shown(episode(host, 4), "look", "inventory")
    player = episode(host, 4)
    await shown(player, "look")
    server = fork_server()
    os.kill(server, signal.SIGKILL)
    await until_dead(server)
    answer = await player.step("inventory")
    assert isinstance(answer, Observed)
    assert answer.messages == undisturbed[-1].messages


@pytest.mark.shows("ALFWorld", "env worker killed")
async def test_an_env_worker_that_dies_leaves_no_process_behind_and_another_goes_on() -> None:
    async with hosting(CLASS) as undisturbed:
        expected = await shown(episode(undisturbed), "look", "inventory")
    async with hosting(CLASS) as lost:
        player = episode(lost)
        await shown(player, "look")
        ours = [fork_server(), *children(fork_server())]
        for pid in child_pids():
            os.kill(pid, signal.SIGKILL)
        async with asyncio.timeout(PATIENCE_S):
            for pid in ours:
                await until_dead(pid)
        async with hosting(CLASS) as other:
            answer = await player.moved_to(other).step("inventory")
    assert isinstance(answer, Observed)
    assert answer.messages == expected[-1].messages
