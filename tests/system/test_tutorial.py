"""What `make tour` does not ask of docs/environments.md: a quiet program, and evaluations that add up."""

import asyncio
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from tests.support.patience import PATIENCE_S, several_waits
from tests.support.processes import free_port, start_program
from tests.support.tutorial import block_with, page

from warren_schemas.episode import Completed, EpisodePurpose
from warren_schemas.http import TrajectoryView

pytestmark = [pytest.mark.storm, pytest.mark.thorough, several_waits]

N_EVALUATED = 16
SHORT = (
    *("sft.steps=40", "sft.episodes_per_step=8", "limits.steps=4"),
    f"evaluation.episodes={N_EVALUATED}",
)
"""The run of the page, cut down to seconds."""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The reader's folder after steps 1 to 3."""
    (tmp_path / "parity.py").write_text(block_with("class Parity"))
    (tmp_path / "try_it.py").write_text(block_with("from parity import"))
    (tmp_path / "parity.yaml").write_text(block_with("name: parity\nmodel"))
    return tmp_path


def test_the_environment_is_tried_without_a_model(folder: Path) -> None:
    done = subprocess.run(
        [sys.executable, "try_it.py"], cwd=folder, env=_variables(), text=True, capture_output=True,
        check=False,
    )  # fmt: skip
    assert f"It prints `{done.stdout.strip()}`" in page()
    assert done.stderr == ""


async def test_rows_34_36_and_59_from_an_empty_file_to_a_training_run(folder: Path) -> None:
    """A new environment is one class, and trains; its evaluations play the same class by the same
    loop, and each of their episodes is a line of JSON, from which the accuracy follows.
    """
    arguments = re.search(r"^warren (up --env parity:Parity)$", page(), re.MULTILINE)
    assert arguments
    port = str(free_port())
    home = folder / "home"
    process = await _warren(folder, *arguments[1].split(), "--port", port, "--home", str(home))
    try:
        async with asyncio.timeout(PATIENCE_S):
            assert process.stdout is not None
            while "warren train" not in (line := (await process.stdout.readline()).decode()):
                assert line, "it ended before it was ready"
        key = (home / "api-key").read_text()
        sets = [word for pair in SHORT for word in ("--set", pair)]
        url = f"http://127.0.0.1:{port}"
        there = ("--url", url, "--api-key", key)
        train = await _warren(folder, "train", "parity.yaml", *there, *sets)
        out, _ = await asyncio.wait_for(train.communicate(), PATIENCE_S)
        run = re.search(r"Run (\S+) completed", out.decode())
        assert run, out.decode()
        read = await _warren(folder, "trajectories", run[1], "--json", *there)
        lines, _ = await asyncio.wait_for(read.communicate(), PATIENCE_S)
    finally:
        process.terminate()
        await asyncio.wait_for(process.communicate(), PATIENCE_S)
    assert train.returncode == 0
    after = re.search(r"reward after \(greedy\) +([01]\.\d+)", out.decode())
    assert after
    ended = [TrajectoryView.model_validate_json(line).trajectory for line in lines.splitlines()]
    judged = [item.outcome for item in ended if item.spec.purpose is EpisodePurpose.EVALUATE]
    n_right = sum(o.metrics["right"] for o in judged[-N_EVALUATED:] if isinstance(o, Completed))
    assert len(judged) == 2 * N_EVALUATED
    assert n_right / N_EVALUATED == pytest.approx(float(after[1]), abs=0.001)


async def _warren(folder: Path, *arguments: str) -> asyncio.subprocess.Process:
    return await start_program(
        sys.executable, "-m", "warren", *arguments,
        folder=folder, environment=_variables(), stderr=asyncio.subprocess.STDOUT,
    )  # fmt: skip


def _variables() -> dict[str, str]:
    """Ours, without Warren's, and with this checkout in the path from any folder."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith("WARREN_")}
    return {**kept, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
