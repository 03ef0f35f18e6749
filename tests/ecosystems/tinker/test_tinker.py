"""The Tinker SDK, unmodified, against a deployment: every method of it, and a loop whose deployment is killed."""

import os
import signal
import subprocess
from collections.abc import Generator
from pathlib import Path

import pytest
from tests.ecosystems.tinker.table import BASE, ROOT, Up, cells, deployed, tried
from tests.support.base_models import tiny_models
from tests.support.patience import PATIENCE_S

__all__ = ["tiny_models"]

pytestmark = pytest.mark.ecosystem
PYTHON = str(ROOT / ".venv-tinker" / "bin" / "python")
LOOP = Path(__file__).with_name("loop.py")
N_STEPS = 4


@pytest.fixture(scope="module")
def up(tmp_path_factory: pytest.TempPathFactory, tiny_models: dict[str, str]) -> Generator[Up]:
    with deployed(tmp_path_factory.mktemp("up"), tiny_models[BASE]) as up:
        yield up


def test_every_method_does_what_the_page_says(up: Up) -> None:
    version, methods = tried(up, PYTHON)
    assert "not tried" not in methods.values()
    told = {name: "works" if what == "works" else "refused" for name, what in methods.items()}
    assert told == cells(version), {n: w for n, w in methods.items() if w != "works"}


def looping(up: Up) -> "subprocess.Popen[str]":
    command = [PYTHON, str(LOOP), up.url, up.key, BASE, str(N_STEPS)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def weights(loop: "subprocess.Popen[str]") -> str:
    out, _ = loop.communicate(timeout=PATIENCE_S)
    assert loop.returncode == 0
    return out.splitlines()[-1]


def test_a_loop_ends_with_the_same_weights_where_all_of_the_deployment_was_killed(up: Up) -> None:
    undisturbed = weights(looping(up))
    assert undisturbed.startswith("weights")
    loop = looping(up)
    assert loop.stdout is not None
    while not loop.stdout.readline().startswith("step 1"):
        assert loop.poll() is None, "it ended early"
    assert up.process is not None
    os.killpg(up.process.pid, signal.SIGKILL)
    up.process.wait()
    up.start()
    assert weights(loop) == undisturbed
