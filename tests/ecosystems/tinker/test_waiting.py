"""Tinker's SDK, unmodified, is told for what a model waits."""

import json
import subprocess
from collections.abc import Generator
from pathlib import Path

import pytest
from tests.ecosystems.tinker.table import BASE, ROOT, Up, deployed
from tests.support.base_models import tiny_models
from tests.support.patience import PATIENCE_S
from tests.support.processes import wait_until

import warren.sync
from warren_schemas.http import WorkerView

__all__ = ["tiny_models"]

pytestmark = pytest.mark.ecosystem_all
PYTHON = str(ROOT / ".venv-tinker" / "bin" / "python")
PROGRAM = Path(__file__).with_name("waiting.py")


@pytest.fixture
def drained(tmp_path: Path, tiny_models: dict[str, str]) -> Generator[Up]:
    """Its trainer takes nothing."""
    with deployed(tmp_path, tiny_models[BASE]) as up:
        with warren.sync.connect(up.url, up.key.removeprefix("tml-")) as client:
            drain_trainer(client, up)
        yield up


def drain_trainer(client: warren.sync.Client, up: Up) -> None:
    def trainer() -> WorkerView:
        return next(one for one in client.workers() if one.role == "trainer")

    assert up.process is not None
    client.access.drain_worker(trainer().id)
    wait_until(
        lambda: trainer().is_draining,
        up.process,
        deadline_s=PATIENCE_S,
        log_path=up.home / "up.log",
    )


def test_the_sdk_is_told_why_a_model_waits_and_its_place_in_the_queue(drained: Up) -> None:
    command = [PYTHON, str(PROGRAM), drained.url, drained.key, BASE]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    *logged, told = done.stdout.splitlines()
    assert "No trainer takes models now: they wait for one." in logged
    state, reason = json.loads(told)
    assert state == "paused_capacity"
    assert reason.startswith("the model is number 1 in the queue for trainers: every trainer of")
