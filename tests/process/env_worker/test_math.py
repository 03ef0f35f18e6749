"""`math`, when its verifier's process fails, or a comparison has no end."""

import logging
import os
from pathlib import Path

import pytest
from tests.support.patience import PATIENCE_S
from tests.support.question_files import write_lines

from warren.environment import TaskError
from warren.host_services.verdict import VerificationFailed
from warren.testing import play
from warren_env_worker.background_loop import background_loop
from warren_env_worker.environments.math import Math
from warren_env_worker.verifier.verifier import pool_of


def test_a_verifier_that_fails_gives_no_reward(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    background_loop().wait(pool_of(os.getpid()).close(), limit_s=PATIENCE_S)
    monkeypatch.setenv("PYTHONHOME", "/nowhere")  # with which no Python starts
    path = write_lines(tmp_path / "x.jsonl", {"problem": "?", "answer": "x+1"})
    with pytest.raises(VerificationFailed, match="the verifier died"):
        play(Math(str(path)), lambda _: r"\boxed{1+x}")


def test_who_brings_the_verifier_down_is_graded(tmp_path: Path) -> None:
    path = write_lines(tmp_path / "x.jsonl", {"problem": "?", "answer": "x+1"})
    episode = play(Math(str(path)), lambda _: r"\boxed{{10^9}!}")
    assert episode.reward == 0.0
    assert episode.results[-1].metrics["timed_out"] == 1.0


def test_a_row_whose_answer_nothing_can_be_compared_with_is_told_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = write_lines(tmp_path / "x.jsonl", {"problem": "?", "answer": "{10^9}!"})
    for _ in range(2):
        with pytest.raises(TaskError, match="row 1: the right answer can't be compared"):
            play(Math(str(path)), lambda _: r"\boxed{x+1}")
    (told,) = [r for r in caplog.records if r.levelno >= logging.WARNING]
    assert f"{path}, row 1:" in told.getMessage()
