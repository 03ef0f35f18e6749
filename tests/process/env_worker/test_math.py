"""`math`, when its verifier's process fails."""

import os
from pathlib import Path

import pytest
from tests.support.patience import PATIENCE_S
from tests.support.question_files import write_lines

from warren.testing import play
from warren_env_worker.background_loop import background_loop
from warren_env_worker.environments.math import Math
from warren_env_worker.verifier.verdict import VerificationFailed
from warren_env_worker.verifier.verifier import pool_of


def test_a_verifier_that_fails_gives_no_reward(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    background_loop().wait(pool_of(os.getpid()).close(), limit_s=PATIENCE_S)
    monkeypatch.setenv("PYTHONHOME", "/nowhere")  # with which no Python starts
    path = write_lines(tmp_path / "x.jsonl", {"problem": "?", "answer": "x+1"})
    with pytest.raises(VerificationFailed, match="the verifier died"):
        play(Math(str(path)), lambda _: r"\boxed{1+x}")
