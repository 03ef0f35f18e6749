"""The environment `gymnasium` on the real packages, whose processes are killed in the middle of episodes."""

import asyncio
import os
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

pytestmark = [pytest.mark.ecosystem, pytest.mark.server]
ROOT = Path(__file__).parents[3]
CLASS = "warren_env_worker.environments.gymnasium.environment:Gymnasium"
LAKE: dict[str, Any] = {"env": "FrozenLake-v1", "arguments": {"is_slippery": False}}
TAXI = ("south", "north", "east", "west", "pickup", "dropoff")
TO_THE_GOAL = ("down", "down", "right", "right", "down", "right")


@pytest.fixture(scope="module", autouse=True)
def installed(tmp_path_factory: pytest.TempPathFactory) -> None:
    """As `warren env install gymnasium` does it, in the environment that `make ecosystems` has made."""
    home = tmp_path_factory.mktemp("home")
    os.environ["WARREN_HOME"] = str(home)  # of the children of this test's process
    virtual_environments.folder("gymnasium").parent.mkdir()
    virtual_environments.folder("gymnasium").symlink_to(ROOT / ".venv-gymnasium")
    virtual_environments.note_installed("gymnasium")


@pytest.fixture
async def host() -> AsyncGenerator[Host]:
    async with hosting(CLASS) as host:
        yield host


def episode(host: Host, seed: int = 1, **config: object) -> Player:
    return Player(host, spec("gymnasium", environment_config=config, seed=seed, max_turns=50))


async def shown(player: Player, *actions: str) -> list[Observed]:
    answers = [await player.reset(), *[await player.step(action) for action in actions]]
    assert all(isinstance(answer, Observed) for answer in answers), answers
    return [answer for answer in answers if isinstance(answer, Observed)]


def last_text(observed: Observed) -> str:
    return observed.messages[-1][1] if observed.messages else ""


@pytest.mark.shows("Gymnasium", "tasks", "several turns")
async def test_frozen_lake_from_start_to_goal(host: Host) -> None:
    began, *turns = await shown(
        episode(host, **LAKE), *(f"<action>{a}</action>" for a in TO_THE_GOAL)
    )
    assert "Actions: left, down, right, up." in began.messages[0][1]
    assert last_text(began) == "[S]FFF\nFHFH\nFFFH\nHFFG"
    assert last_text(turns[0]).endswith("SFFF\n[F]HFH\nFFFH\nHFFG")
    assert [turn.reward for turn in turns] == [0.0] * 5 + [1.0]
    assert (turns[-1].is_over, turns[-1].is_truncated) == (True, False)


@pytest.mark.shows("Gymnasium", "tasks")
async def test_the_same_seed_and_actions_show_the_same(host: Host) -> None:
    for env, action, expected in (
        ("Taxi-v4", "south", "+---------+"),
        ("CliffWalking-v1", "up", "o  o  o"),
        ("Blackjack-v1", "stick", "("),
        ("MiniGrid-Empty-5x5-v0", "forward", "Mission: get to the green goal square"),
        ("BabyAI-GoToRedBall-v0", "left", "Mission: go to the red ball"),
    ):
        words = f"I go\n{action}."
        once, again = [await shown(episode(host, env=env), words) for _ in range(2)]
        assert [one.messages for one in once] == [one.messages for one in again]
        assert expected in last_text(once[0])
        assert once[1].metrics["steps"] == 1.0


async def test_what_is_no_action_is_told_and_changes_nothing(host: Host) -> None:
    _, wrong, long, right = await shown(episode(host, **LAKE), "jump", "1" * 5000, "01")
    assert last_text(wrong) == "There is no such action. Say one of: left, down, right, up"
    assert wrong.reward is None
    assert long.messages == wrong.messages
    assert last_text(right).endswith("SFFF\n[F]HFH\nFFFH\nHFFG")
    assert right.metrics == {"steps": 1.0, "invalid_actions": 2.0}


async def test_an_action_in_numbers(host: Host) -> None:
    first, wrong, far, right = await shown(
        episode(host, env="Pendulum-v1"), "push", "<action>2.5</action>", "I push.\n-1.5"
    )
    assert "as <action>NUMBER</action>. An action is a number from -2 to 2." in first.messages[0][1]
    assert last_text(wrong) == "That is no action. An action is a number from -2 to 2."
    assert last_text(far) == "That is out of range. An action is a number from -2 to 2."
    assert right.reward is not None
    assert right.reward < 0
    assert right.metrics == {"steps": 1.0, "invalid_actions": 2.0}


async def test_a_config_chooses_how_actions_are_read_and_what_follows_without_one(
    host: Host,
) -> None:
    text = {"tag": "move", "invalid": {"reward": -0.5, "most": 1}}
    first, right, none, last = await shown(
        episode(host, **LAKE, text=text), "<move>down</move> or up", "<action>up</action>", "up"
    )
    assert "as <move>NAME</move>. Actions: left, down, right, up." in first.messages[0][1]
    assert last_text(right).endswith("SFFF\n[F]HFH\nFFFH\nHFFG")
    assert last_text(none) == "There is no action in that: expected it between <move> and </move>."
    assert (right.reward, none.reward, none.is_over) == (0.0, -0.5, False)
    assert (last.reward, last.is_over, last.is_truncated) == (-0.5, True, False)
    assert last.metrics == {"steps": 1.0, "invalid_actions": 2.0}


async def test_a_pattern_reads_the_action(host: Host) -> None:
    text = {"pattern": r"(?s).*MOVE: *(\w+)"}
    _, turn = await shown(episode(host, **LAKE, text=text), "MOVE: up\nMOVE:down, I think")
    assert last_text(turn).endswith("SFFF\n[F]HFH\nFFFH\nHFFG")


async def test_a_template_with_a_history_begins_each_turn_anew(host: Host) -> None:
    text = {"template": "{history}\nTurn {turn} of {admissible}:\n{observation}", "history": 1}
    first, turn, none = await shown(episode(host, env="Taxi-v4", text=text), "2", "fly")
    assert last_text(first).startswith("(none)\nTurn 1 of ")
    board = last_text(first).partition(":\n")[2]
    assert last_text(turn).startswith(f"[1] {board}\n[1] > 2\nTurn 2 of ")
    assert (first.after, turn.after, none.after) == (None, 0, 0)
    now = last_text(turn).partition("\nTurn 2 of ")[2].partition(":\n")[2]
    assert last_text(none).endswith(
        f"There is no such action. Say one of: {', '.join(TAXI)}\n\n{now}"
    )
    masked = last_text(first).partition("of ")[2].partition(":")[0].split(", ")
    assert 0 < len(masked) < len(TAXI)
    assert set(masked) < set(TAXI)


async def test_a_config_that_cannot_be_played_is_refused(host: Host) -> None:
    lake = {"env": "FrozenLake-v1"}
    refused: tuple[tuple[dict[str, Any], str], ...] = (
        ({"env": "os:system"}, "expected the id of an environment"),
        ({"env": "NoSuch-v0"}, "NoSuch"),
        (lake | {"arguments": {"is_slipery": True}}, "is_slipery"),
        (lake | {"arguments": {"render_mode": "human"}}, "leave it out"),
        (lake | {"actions": ["a", "b"]}, "actions names 2"),
        (lake | {"text": {"tag": "a b"}}, "text.tag: expected text that matches"),
    )
    for config, reason in refused:
        answer = await episode(host, seed=1, **config).reset()
        assert isinstance(answer, Refused)
        assert (answer.kind, answer.is_retryable) == (FailureKind.ENVIRONMENT_CONFIG, False)
        assert reason in answer.reason


@pytest.mark.shows("Gymnasium", "foreign process killed", "retries")
async def test_a_killed_process_of_an_episode_costs_nothing(host: Host) -> None:
    undisturbed = await shown(episode(host, **LAKE), *TO_THE_GOAL)
    player = episode(host, **LAKE)
    answers = await shown(player)
    for action in TO_THE_GOAL:
        kill_and_wait(children(_fork_server()))  # of all episodes
        answer = await player.step(action)
        assert isinstance(answer, Observed)
        answers.append(answer)
    assert [one.messages for one in answers] == [one.messages for one in undisturbed]


@pytest.mark.shows("Gymnasium", "foreign process killed")
async def test_a_killed_fork_server_is_started_again(host: Host) -> None:
    player = episode(host, **LAKE)
    await shown(player, "down")
    server = _fork_server()
    os.kill(server, signal.SIGKILL)
    await until_dead(server)
    after = await player.step("down")
    assert isinstance(after, Observed)
    assert last_text(after).endswith("[F]FFH\nHFFG")


@pytest.mark.shows("Gymnasium", "env worker killed")
async def test_an_env_worker_that_dies_leaves_no_process_behind_and_another_goes_on() -> None:
    async with hosting(CLASS) as lost:
        player = episode(lost, **LAKE)
        await shown(player, "down")
        ours = [_fork_server(), *children(_fork_server())]
        for pid in child_pids():
            os.kill(pid, signal.SIGKILL)
        async with asyncio.timeout(PATIENCE_S):
            for pid in ours:
                await until_dead(pid)
        async with hosting(CLASS) as other:
            answer = await player.moved_to(other).step("down")
    assert isinstance(answer, Observed)
    assert last_text(answer).endswith("[F]FFH\nHFFG")


def _fork_server() -> int:
    (host,) = child_pids()
    (server,) = children(host)
    return server
