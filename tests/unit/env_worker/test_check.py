"""`warren env check`: it finds what is wrong and leaves in peace what is right."""

import subprocess
import sys
from pathlib import Path

import pytest
from tests.support import checked

from warren_env_worker.check.checks import run_checks
from warren_env_worker.check.finding import Mark
from warren_env_worker.check.probe import Probe
from warren_env_worker.environments.arithmetic import Arithmetic
from warren_env_worker.environments.echo import Echo
from warren_env_worker.environments.gomoku import Gomoku
from warren_env_worker.environments.guess import Guess
from warren_env_worker.host.protocol import Config

ROOT = Path(__file__).parents[3]


@pytest.mark.parametrize(
    ("environment", "config"),
    [
        (checked.Fine, {}),
        (Guess, {}),
        (Arithmetic, {}),
        (Echo, {}),
        (Gomoku, {"size": 4, "win": 3, "opponent": "random"}),
    ],
)
def test_what_is_right_passes(environment: type[checked.Fine], config: Config) -> None:
    findings = list(run_checks(Probe(environment, config, "train")))
    assert len(findings) == 7
    assert [f for f in findings if f.mark is Mark.BAD] == []


@pytest.mark.parametrize(
    ("environment", "what", "told"),
    [
        (checked.Leaky, "holds no answer", "stands in all of 6 first observations"),
        (checked.GlobalChance, "the same seed", "task 0 differs at its reset"),
        (checked.GlobalChance, "global random state", "draws from the global `random`"),
        (checked.Generous, "beat junk", "junk scores 1 at best"),
        (checked.Fragile, "beat junk", "the answer '' makes it fail: IndexError"),
        (checked.Slow, "within their limits", "less than half of the limit of step() is left"),
        (checked.Hanging, "it can be played", "reset() took longer than 0.2 s"),
        (checked.Hoarding, "memory stays flat", "something is kept"),
        (checked.Unscored, "it can be played", "step() returned the reward nan"),
    ],
)
def test_what_is_wrong_is_found(environment: type[checked.Fine], what: str, told: str) -> None:
    findings = list(run_checks(Probe(environment, {}, "train")))
    (found,) = [f for f in findings if what in f.what]
    assert found.mark is Mark.BAD
    assert told in found.told
    checked.Hoarding.kept.clear()


@pytest.mark.parametrize(
    ("arguments", "code", "told"),
    [
        (["tests.support.checked:Fine"], 0, "tests.support.checked:Fine: all is well"),
        (["tests.support.checked:Leaky"], 1, "1 of 7 checks failed"),
        (["tests.support.checked:Fin"], 2, "did you mean Fine?"),
        (["tests.support.checked:Fine", "--config", "["], 2, "--config is no JSON"),
        (["tests.support.checked:Fine", "--config", '{"x": 1}'], 1, "x: unknown key"),
    ],
)
def test_the_command_says_it_and_has_an_exit_code(
    arguments: list[str], code: int, told: str
) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "warren", "env", "check", *arguments],
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == code, done.stderr
    assert told in done.stdout + done.stderr
    assert "Traceback" not in done.stderr
