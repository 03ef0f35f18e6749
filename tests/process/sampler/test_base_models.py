"""Base models that child processes build."""

import subprocess
import sys
from pathlib import Path

from tests.support.patience import PATIENCE_S


def test_two_builders_at_once_leave_one_whole_folder(
    tiny_models: dict[str, str], tmp_path: Path
) -> None:
    target = tmp_path / "tiny"
    command = [
        sys.executable,
        "-m",
        "warren_gpu_worker.base_models.tiny_build",
        str(target),
        "0.07",
    ]
    builders = [subprocess.Popen(command, stderr=subprocess.DEVNULL) for _ in range(2)]
    assert [builder.wait(PATIENCE_S) for builder in builders] == [0, 0]
    assert [entry.name for entry in tmp_path.iterdir()] == ["tiny"]
    built, known = (Path(f) / "model.safetensors" for f in (target, tiny_models["warren/tiny"]))
    assert built.read_bytes() == known.read_bytes()
