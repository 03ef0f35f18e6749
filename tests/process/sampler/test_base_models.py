"""Base models that child processes build."""

import os
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.support.patience import PATIENCE_S
from tests.support.processes import children_running

from warren_gpu_worker.base_models.tiny import ensure_tiny

BUILDER = "warren_gpu_worker.base_models.tiny_build"


def test_two_builders_at_once_leave_one_whole_folder(
    tiny_models: dict[str, str], tmp_path: Path
) -> None:
    target = tmp_path / "tiny"
    command = [
        sys.executable,
        "-m",
        BUILDER,
        str(target),
        "0.07",
        "512",
    ]
    builders = [subprocess.Popen(command, stderr=subprocess.DEVNULL) for _ in range(2)]
    assert [builder.wait(PATIENCE_S) for builder in builders] == [0, 0]
    assert [entry.name for entry in tmp_path.iterdir()] == ["tiny"]
    built, known = (Path(f) / "model.safetensors" for f in (target, tiny_models["warren/tiny"]))
    assert built.read_bytes() == known.read_bytes()


def test_a_builder_that_is_killed_is_followed_by_another(tmp_path: Path) -> None:
    with ThreadPoolExecutor(1) as pool:
        killed = pool.submit(kill_a_builder)
        folder = ensure_tiny("warren/tiny", tmp_path)
    assert killed.result() > 0
    assert (folder / "model.safetensors").is_file()


def kill_a_builder() -> int:
    while not (found := children_running(BUILDER)):
        os.sched_yield()
    os.kill(found[0], signal.SIGKILL)
    return found[0]
