"""`math`, when its verifier's process fails."""

from pathlib import Path

import pytest
from tests.support.question_files import write_lines

from warren.testing import play
from warren_env_worker.environments.math import Math
from warren_env_worker.verifier import pool, verifier
from warren_env_worker.verifier.verdict import VerificationFailed


def test_a_verifier_that_fails_gives_no_reward(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = pool.VerifierPool(1)

    def pool_of(process: int) -> pool.VerifierPool:
        return own

    monkeypatch.setattr(pool, "WORKER_MODULE", "warren_env_worker.no_such_module")
    monkeypatch.setattr(verifier, "pool_of", pool_of)
    path = write_lines(tmp_path / "x.jsonl", {"problem": "?", "answer": "x+1"})
    with pytest.raises(VerificationFailed, match="the verifier died"):
        play(Math(str(path)), lambda _: r"\boxed{1+x}")
