"""The Tinker SDK, unmodified, against a deployment: every method, every loss, and a loop whose deployment is killed.

Models that share a base are batched together, and which ones are is a matter of time: so the last bits may differ.
"""

import json
import os
import re
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
EQUALITY = Path(__file__).with_name("equality.py")
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


def test_losses_logprobs_and_weights_are_those_of_plain_float64_torch(up: Up) -> None:
    command = [PYTHON, str(EQUALITY), up.url, up.key, BASE, up.model]
    told = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    assert told.returncode == 0, told.stderr[-3000:]
    rows = {row.pop("loss"): row for row in json.loads(told.stdout.splitlines()[-1])}
    assert len(rows) == 9
    assert all(row.pop("moved") > 0.01 for row in rows.values())
    assert rows.pop("custom ppo") == rows.pop("custom several") == {"weights": 0.0}
    assert max(value for row in rows.values() for value in row.values()) < 1e-5, rows


def looping(up: Up) -> "subprocess.Popen[str]":
    command = [PYTHON, str(LOOP), up.url, up.key, BASE, str(N_STEPS)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def weights(loop: "subprocess.Popen[str]") -> list[float]:
    """The logprobs that tell the weights at the end of a loop."""
    out, _ = loop.communicate(timeout=PATIENCE_S)
    assert loop.returncode == 0
    return [float.fromhex(value) for value in re.findall(r"'(\S+)'", out.splitlines()[-1])]


def test_a_loop_ends_with_the_same_weights_where_all_of_the_deployment_was_killed(up: Up) -> None:
    undisturbed = weights(looping(up))
    assert len(undisturbed) == 4
    loop = looping(up)
    assert loop.stdout is not None
    while not loop.stdout.readline().startswith("step 1"):
        assert loop.poll() is None, "it ended early"
    assert up.process is not None
    os.killpg(up.process.pid, signal.SIGKILL)
    up.process.wait()
    up.start()
    assert weights(loop) == pytest.approx(undisturbed, abs=1e-5)
