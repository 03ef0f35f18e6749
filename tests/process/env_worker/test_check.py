"""`warren env check`, the command."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]


@pytest.mark.parametrize(
    ("arguments", "code", "told"),
    [
        (["tests.support.checked:Fine"], 0, "tests.support.checked:Fine: all is well"),
        (["tests.support.checked:Leaky"], 1, "1 of 11 checks failed"),
        (["tests.support.checked:Hopeless"], 0, "nothing wrong was found; 3 of 11 checks can't"),
        (["tests.support.checked:Deaf"], 1, "in step: libc.pthread_mutex_lock(lock)"),
        (["tests.support.checked:Deaf"], 1, "a call hangs in native code"),
        (["tests.support.checked:Crashing"], 1, "in step: os.kill(os.getpid(), signal.SIGSEGV)"),
        (["tests.support.checked:Fin"], 2, "did you mean Fine?"),
        (["guess"], 0, "guess: all is well"),
        (["opnenv"], 2, "'opnenv' names no environment; did you mean openenv?"),
        (["gymnasium"], 2, "warren env install gymnasium"),
        (["tests.support.checked:Fine", "--config", "["], 2, "--config is not valid JSON"),
        (["tests.support.checked:Fine", "--config", '{"x": 1}'], 1, "x: unknown key"),
    ],
)
def test_the_command_says_it_and_has_an_exit_code(
    arguments: list[str], code: int, told: str, tmp_path: Path
) -> None:
    done = check(*arguments, home=tmp_path)
    assert done.returncode == code, done.stderr
    assert told in done.stdout + done.stderr
    assert "Traceback" not in done.stderr


def test_what_it_prints_is_kept_apart_and_shown_on_request(tmp_path: Path) -> None:
    log = tmp_path / "logs" / "environments" / "tests.support.checked.Talking.log"
    quiet = check("tests.support.checked:Talking", home=tmp_path)
    assert "a new word" not in quiet.stdout + quiet.stderr
    assert f"kept in {log}; --show-output" in quiet.stdout
    kept = log.read_text().splitlines()
    assert kept[0].endswith(" check [episode 1, task 0] a new word")
    assert kept[1].endswith(" check [episode 1, task 0] a child speaks")
    shown = check("tests.support.checked:Talking", "--show-output", home=tmp_path).stdout
    assert re.search(r"\[(episode 9, task \d)\] a new word\n\[\1\] a child speaks\n", shown)
    crashed = check("tests.support.checked:Crashing", "--show-output", home=tmp_path).stdout
    assert crashed.endswith("[episode 1, task 0] almost there\n")


def check(*arguments: str, home: Path) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-m", "warren", "env", "check", *arguments],
        cwd=ROOT, env={**os.environ, "WARREN_HOME": str(home)}, capture_output=True, text=True,
        check=False,
    )  # fmt: skip
