"""The environment `textworld` on the real package, killed in the middle of episodes and of making games."""

import asyncio
import json
import os
import signal
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest
from tests.support.brokers import eventually
from tests.support.hosting import Player, child_pids, hosting
from tests.support.interacting import spec
from tests.support.patience import PATIENCE_S
from tests.support.processes import children, kill_and_wait, until_dead

from warren_env_worker.foreign import virtual_environments
from warren_env_worker.host.host import Host
from warren_env_worker.host.protocol import Observed, Refused
from warren_schemas.episode import FailureKind, TaskRef

pytestmark = [pytest.mark.ecosystem_all, pytest.mark.server]
ROOT = Path(__file__).parents[3]
CLASS = "warren_env_worker.environments.textworld.environment:TextWorld"
SIMPLE: dict[str, Any] = {
    "challenge": "tw-simple",
    "settings": {"rewards": "dense", "goal": "detailed"},
    "games": 10,
}
COOKING: dict[str, Any] = {"challenge": "tw-cooking", "settings": {"recipe": 3, "take": 3}}
MAX_GAMES = 2000
"""That are kept, as docs/environments-textworld.md has it."""
UNHEARD = (
    "save", "RESTORE", "take coin. restart", "undo", "transcripts", "tw-print version", "\\s", "look\x1b",
    "go " * 200, "",
)  # fmt: skip


@pytest.fixture(scope="module", autouse=True)
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of the children of this test's process; its games are made once."""
    return settled(tmp_path_factory.mktemp("home"))


def settled(home: Path) -> Path:
    """As `warren env install textworld` does it, in the environment that `make ecosystems` has made."""
    os.environ["WARREN_HOME"] = str(home)
    virtual_environments.folder("textworld").parent.mkdir()
    virtual_environments.folder("textworld").symlink_to(ROOT / ".venv-textworld")
    virtual_environments.note_installed("textworld")
    return home


@pytest.fixture
async def host() -> AsyncGenerator[Host]:
    async with hosting(CLASS) as host:
        yield host


def episode(host: Host, index: int = 0, split: str = "train", **config: Any) -> Player:
    task = TaskRef(index=index, split=split)
    found = config or SIMPLE
    return Player(host, spec("textworld", environment_config=found, task=task, max_turns=100))


async def shown(player: Player, *actions: str) -> list[Observed]:
    answers = [await player.reset(), *[await player.step(action) for action in actions]]
    assert all(isinstance(answer, Observed) for answer in answers), answers
    return [answer for answer in answers if isinstance(answer, Observed)]


def last_text(observed: Observed) -> str:
    return observed.messages[-1][1] if observed.messages else ""


def games(home: Path) -> list[Path]:
    return [path.parent for path in (home / "games" / "textworld").glob("[!m]*/game.z8")]


def way_to_win(home: Path, first: Observed) -> list[str]:
    """Of the game that begins like this, as TextWorld noted it."""
    for game in games(home):
        told = json.loads((game / "game.json").read_text())
        if told["objective"].strip() in last_text(first):
            return told["metadata"]["walkthrough"]
    raise AssertionError("no such game")


@pytest.mark.shows("TextWorld", "tasks", "several turns")
async def test_a_game_is_won_and_its_points_add_up_to_one(host: Host, home: Path) -> None:
    player = episode(host)
    (first,) = await shown(player)
    assert first.messages[0][1].startswith("You play a text adventure.")
    assert "-= Bedroom =-" in last_text(first)
    assert "$$$" not in last_text(first)
    turns: list[Observed] = []
    for command in way_to_win(home, first):
        turn = await player.step(f"I see.\n<action>{command}</action>")
        assert isinstance(turn, Observed)
        assert ">" not in last_text(turn)
        turns.append(turn)
    rewards = [turn.reward or 0.0 for turn in turns]
    assert sum(rewards) == pytest.approx(1.0)
    assert sum(reward > 0 for reward in rewards) > 3
    assert (turns[-1].is_over, turns[-1].metrics["won"]) == (True, 1.0)
    assert [turn.is_over for turn in turns[:-1]] == [False] * (len(turns) - 1)


@pytest.mark.shows("TextWorld", "tasks")
async def test_the_same_number_is_the_same_game_on_another_machine_and_others_are_others(
    tmp_path: Path, home: Path
) -> None:
    async def begun(*tasks: tuple[int, str]) -> list[str]:
        async with hosting(CLASS) as host:
            players = [episode(host, index, split, **COOKING) for index, split in tasks]
            firsts = await asyncio.gather(*map(shown, players))
        return [last_text(first[0]) for first in firsts]

    once, once_more, other, tested = await begun(
        (0, "train"), (0, "train"), (1, "train"), (0, "test")
    )
    try:
        settled(tmp_path)
        (elsewhere,) = await begun((0, "train"))
    finally:
        os.environ["WARREN_HOME"] = str(home)
    assert once == once_more == elsewhere
    assert len({once, other, tested}) == 3
    assert len(games(tmp_path)) == 1


async def test_what_the_game_may_not_hear_is_told_and_changes_nothing(host: Host) -> None:
    player = episode(host, list_commands=True, **SIMPLE)
    first, *answers = await shown(player, *UNHEARD, "inventory")
    assert "\n\nCommands: " in last_text(first)
    for answer in answers[:-1]:
        assert last_text(answer) == "That is no command of this game."
        assert answer.reward is None
    assert answers[-1].metrics == {"won": 0.0, "steps": 1.0, "invalid_commands": len(UNHEARD)}
    assert "You are carrying nothing" in last_text(answers[-1])


async def test_a_config_chooses_how_commands_are_read_and_what_is_shown(host: Host) -> None:
    text = {"action": "boxed", "template": "{observation}\n\nCan do: {admissible}"}
    first, none, right = await shown(
        episode(host, text=text, **SIMPLE), "inventory", "I \\boxed{inventory}"
    )
    assert first.messages[0][1].endswith("Say one command in each turn, as \\boxed{COMMAND}.")
    can_do = last_text(first).partition("\n\nCan do: ")[2]
    assert "look" in can_do.split(", ")
    assert last_text(none) == (
        f"There is no command in that: expected it in \\boxed{{}}.\n\nCan do: {can_do}"
    )
    assert last_text(right) == f"You are carrying nothing.\n\nCan do: {can_do}"


async def test_a_config_that_cannot_be_played_is_refused(host: Host) -> None:
    coins: dict[str, Any] = {"challenge": "tw-coin_collector"}
    refused: tuple[tuple[dict[str, Any], str], ...] = (
        ({"challenge": "os.system"}, "expected the name of one"),
        ({"challenge": "tw-nothing"}, "there are custom, tw-coin_collector"),
        (coins, "arguments are required: --level"),
        (coins | {"settings": {"level": 900}}, "within [1-300]"),
        (coins | {"settings": {"level": 1, "levels": 2}}, "unrecognized arguments: --levels=2"),
        (coins | {"settings": {"level": 1, "--output": "x"}}, "expected a name such as level"),
        (coins | {"games": 0}, "games: expected from 1"),
        ({"challenge": "custom", "settings": {"theme": "../x"}}, "invalid choice: '../x'"),
    )
    for config, reason in refused:
        answer = await episode(host, **config).reset()
        assert isinstance(answer, Refused)
        assert (answer.kind, answer.is_retryable) == (FailureKind.ENVIRONMENT_CONFIG, False)
        assert reason in answer.reason


@pytest.mark.shows("TextWorld", "foreign process killed", "retries")
async def test_a_killed_process_of_an_episode_costs_nothing(host: Host, home: Path) -> None:
    player = episode(host)
    answers = await shown(player)
    commands = way_to_win(home, answers[0])
    undisturbed = await shown(episode(host), *commands)
    for command in commands:
        kill_and_wait(children(_fork_server()))  # of all episodes
        answer = await player.step(command)
        assert isinstance(answer, Observed)
        answers.append(answer)
    assert [one.messages for one in answers] == [one.messages for one in undisturbed]
    assert [one.reward for one in answers] == [one.reward for one in undisturbed]


@pytest.mark.shows("TextWorld", "foreign process killed", "retries")
async def test_a_process_that_is_killed_as_it_makes_a_game_leaves_none_and_another_makes_it(
    host: Host, home: Path
) -> None:
    before = games(home)
    making = asyncio.create_task(episode(host, index=1).reset())

    async def is_half_made() -> bool:
        return any((home / "games" / "textworld").glob("making-*/game.ni"))

    await eventually(is_half_made)
    kill_and_wait(children(_fork_server()))
    assert isinstance(await making, Observed)
    assert len(games(home)) == len(before) + 1
    assert not await is_half_made()


async def test_the_games_that_were_not_used_for_longest_are_forgotten(
    tmp_path: Path, home: Path
) -> None:
    kept = tmp_path / "games" / "textworld"
    for number in range(MAX_GAMES + 2):
        (kept / f"{number:032x}").mkdir(parents=True)
        os.utime(kept / f"{number:032x}", (number, number))
    try:
        settled(tmp_path)
        async with hosting(CLASS) as host:
            await shown(episode(host, challenge="tw-coin_collector", settings={"level": 1}))
    finally:
        os.environ["WARREN_HOME"] = str(home)
    left = sorted(path.name for path in kept.iterdir() if "-" not in path.name)
    assert len(left) == MAX_GAMES
    assert left[0] == f"{3:032x}"
    assert len(games(tmp_path)) == 1


@pytest.mark.shows("TextWorld", "env worker killed")
async def test_an_env_worker_that_dies_leaves_no_process_behind_and_another_goes_on() -> None:
    async with hosting(CLASS) as undisturbed:
        expected = await shown(episode(undisturbed), "look", "inventory")
    async with hosting(CLASS) as lost:
        player = episode(lost)
        await shown(player, "look")
        ours = [_fork_server(), *children(_fork_server())]
        for pid in child_pids():
            os.kill(pid, signal.SIGKILL)
        async with asyncio.timeout(PATIENCE_S):
            for pid in ours:
                await until_dead(pid)
        async with hosting(CLASS) as other:
            answer = await player.moved_to(other).step("inventory")
    assert isinstance(answer, Observed)
    assert answer.messages == expected[-1].messages


def _fork_server() -> int:
    (host,) = child_pids()
    (server,) = children(host)
    return server
