"""Trainers whose children are forks of a process that has torch already: each costs milliseconds.

For tests that end no child by a signal: what they would find is the stand-in. See `zygote`.
"""

import os
import subprocess
import sys
from collections.abc import Generator
from functools import partial
from pathlib import Path

import pytest
from tests.support.forked_child import ZYGOTE_VARIABLE

from warren_gpu_worker.trainer.supervisor.rank_processes import RankProcesses, SpawnRanks


@pytest.fixture(scope="session")
def zygote(tmp_path_factory: pytest.TempPathFactory) -> Generator[Path]:
    """A process that forks children on demand; its address."""
    address = tmp_path_factory.mktemp("zygote") / "socket"
    command = ["setpriv", "--pdeathsig=KILL", sys.executable, "-m", "tests.support.zygote"]
    with subprocess.Popen(
        [*command, str(address)],
        stdout=subprocess.PIPE,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    ) as running:
        assert running.stdout is not None
        assert running.stdout.readline() == b"ready\n"
        yield address
        running.kill()


@pytest.fixture
def spawn_forked(zygote: Path, monkeypatch: pytest.MonkeyPatch) -> SpawnRanks:
    monkeypatch.setenv(ZYGOTE_VARIABLE, str(zygote))
    return partial(RankProcesses.spawn, module="tests.support.forked_child")
