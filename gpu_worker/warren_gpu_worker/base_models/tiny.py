"""`warren/tiny`: a 102,272-parameter Qwen3 with a character tokenizer, made from nothing.

It learns multi-turn games on a CPU within seconds, so demo, tests and benchmarks need no download.
`warren/tiny-lora` is the same with a wider embedding: on a frozen random head of the usual width
(std 0.02) an adapter can't sharpen the logits, and a correct trainer looks broken.

Invariant: the weights depend on the recipe alone, and the recipe's number is in the folder's name.
"""

import os
import subprocess
import sys
from pathlib import Path

EMBEDDING_STD = {"warren/tiny": None, "warren/tiny-lora": 0.2}
"""The family: name -> standard deviation of the embedding, None for the model's own default."""

_RECIPE = 1


def ensure_tiny(name: str, models_folder: Path) -> Path:
    """The folder of a member of the family below `models_folder`, built if it is not there yet.

    A child process builds, so that whoever asks need not carry torch. Raises `OSError` when the
    folder can't be written.
    """
    folder = models_folder / f"{name}-r{_RECIPE}"
    if not folder.is_dir():
        folder.parent.mkdir(parents=True, exist_ok=True)
        _build_in_child(name, folder)
    return folder


def _build_in_child(name: str, folder: Path) -> None:
    std = EMBEDDING_STD[name]
    command = [sys.executable, "-m", "warren_gpu_worker.base_models.tiny_build", str(folder)]
    built = subprocess.run(
        command if std is None else [*command, str(std)],
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    if built.returncode != 0:
        reason = (built.stderr.strip().splitlines() or ["no output"])[-1]
        raise OSError(f"{name} could not be built in {folder}: {reason}")
