"""`warren env new` and `warren env test`, as their user types them; the fixtures of the plugin."""

import subprocess
import sys
from pathlib import Path

import pytest

from warren.environment import ChatMessage
from warren_env_worker.authoring.playing import Asked, Players
from warren_env_worker.served_episode import EpisodeFailed

HERE = "tests.support.environments"
FAILING = """
from tests.support.environments import Letters, Sorted

def test_good(play):
    shown = play(Letters, config={"n_turns": 2})
    assert len(shown.rewards) == 2

def test_bad(check):
    check("tests.support.environments:Steady")
"""


def typed(*words: str, folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "warren", *words],
        cwd=folder, text=True, capture_output=True, check=False,
    )  # fmt: skip


def asked(**changes: object) -> Asked:
    plain: dict[str, object] = {
        "config": {}, "seed": 3, "split": "train", "index": 0, "member": 0, "level": None,
        "max_turns": 32,
    }  # fmt: skip
    return Asked(**{**plain, **changes})  # pyright: ignore[reportArgumentType]


def test_a_new_environment_passes_its_own_tests_and_the_check(tmp_path: Path) -> None:
    made = typed("env", "new", "my_env", folder=tmp_path)
    assert made.returncode == 0, made.stderr
    assert "warren env check my_env:MyEnv" in made.stdout
    folder = tmp_path / "my_env"
    tested = typed("env", "test", folder=folder)
    assert tested.returncode == 0, tested.stdout
    assert "3 passed" in tested.stdout
    checked = typed("env", "check", "my_env:MyEnv", folder=folder)
    assert "my_env:MyEnv: all is well" in checked.stdout
    again = typed("env", "new", "my_env", folder=tmp_path)
    assert again.returncode != 0
    assert "exists already" in again.stderr + again.stdout


def test_what_fails_is_told_by_pytest_with_what_the_check_says(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text(FAILING)
    tested = typed("env", "test", str(tmp_path / "test_it.py"), "-x", folder=Path.cwd())
    assert tested.returncode == 1
    assert "1 failed, 1 passed" in tested.stdout
    assert "tests.support.environments:Steady breaks rules of environments:" in tested.stdout
    assert "✗ it can be played" in tested.stdout


def test_episodes_are_played_in_processes_by_actions_a_function_or_demonstrations() -> None:
    players = Players()
    try:
        letters = f"{HERE}:Letters"
        shown = players.play(letters, ["a", "b"], asked(config={"letters": "ab", "n_turns": 3}))
        assert [message.role for message in shown.messages] == ["user", "assistant"] * 3 + (
            ["user"] if shown.messages[-1].role == "user" else []
        )
        assert shown.is_over and not shown.truncated

        def copy(messages: "list[ChatMessage] | object") -> str:
            assert isinstance(messages, list)
            return messages[-1].content  # pyright: ignore[reportUnknownVariableType, reportUnknownMemberType]

        assert players.play(letters, copy, asked()).reward == 3.0

        def copy_by_another(messages: object) -> str:
            del messages
            return players.play(letters, ["c"], asked()).messages[0].content  # which blocks

        assert players.play(letters, copy_by_another, asked()).is_over
        demonstrated = players.play(letters, None, asked(config={"letters": "a"}))
        assert demonstrated.reward == 3.0
        cut = players.play(letters, copy, asked(max_turns=1))
        assert (cut.truncated, cut.is_over, len(cut.rewards)) == (True, False, 1)
        sorted_ = players.play(f"{HERE}:Sorted", ["e"], asked(index=4))
        assert (sorted_.reward, sorted_.task_id, sorted_.category) == (1.0, "letter e", "vowel")
        levelled = players.play(f"{HERE}:Levelled", ["?"], asked(level=2))
        assert levelled.messages[0].content == "level 2"
        with pytest.raises(EpisodeFailed, match="unknown key"):
            players.play(letters, ["a"], asked(config={"letterz": "a"}))
    finally:
        players.close()
