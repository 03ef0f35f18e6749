"""A loss that has no public formula, and the one that stands for it: Tinker's SDK and its cookbook, unmodified."""

import json
import subprocess
from collections.abc import Generator
from pathlib import Path

import pytest
from tests.ecosystems.tinker.cookbook import RL, cookbook_in
from tests.ecosystems.tinker.lettered import build_lettered
from tests.ecosystems.tinker.table import BASE, ROOT, Up, deployed
from tests.support.base_models import tiny_models
from tests.support.patience import PATIENCE_S, several_waits

__all__ = ["tiny_models"]

pytestmark = [pytest.mark.ecosystem_all, several_waits]
PYTHON = str(ROOT / ".venv-tinker" / "bin" / "python")
PROGRAM = Path(__file__).with_name("standing.py")
LOSS = "ppo"


@pytest.fixture(scope="module")
def up(tmp_path_factory: pytest.TempPathFactory, tiny_models: dict[str, str]) -> Generator[Up]:
    folder = tmp_path_factory.mktemp("up")
    build_lettered(Path(tiny_models[BASE]), folder / "lettered")
    options = ("--tinker-stable-reinforce", LOSS)
    with deployed(folder, str(folder / "lettered"), *options) as up:
        yield up


def test_the_sdk_is_told_which_loss_it_got(up: Up) -> None:
    command = [PYTHON, str(PROGRAM), up.url, up.key, BASE, LOSS]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    (metrics, logprobs), own, refused = json.loads(done.stdout)
    assert metrics.pop("stable_reinforce_as_ppo:max") == 1.0
    assert [metrics, logprobs] == own
    assert "leave kl_coeff out" in refused


def test_math_rl_runs_with_its_default_loss(up: Up, tmp_path: Path) -> None:
    cookbook = cookbook_in(tmp_path, up.url, up.key, up.model)
    logged = cookbook.cook("math_rl.train", *RL, "max_steps=2")
    assert "Who asks for the loss stable_reinforce gets ppo." in logged
    assert len(cookbook.rows(of="progress/batch")) == 2
