"""`warren/tiny`: a 102,272-parameter Qwen3 with a character tokenizer, made from nothing.

It learns multi-turn games on a CPU within seconds, so demo, tests and benchmarks need no download.
Its embedding, which is its head as well, is wider than the usual 0.02: measured on the guessing
game, full updates learn twice as fast at 0.07, and above 0.1 they settle too early.
`warren/tiny-lora` has a wider one still: on a frozen random head of the usual width an adapter
can't sharpen the logits, and a correct trainer looks broken. `warren/tiny-long` reads 16,384 tokens, for
environments that show more than a few lines: each token is one character.

Invariant: the weights depend on the recipe alone, and the recipe's number is in the folder's name.
"""

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple


class Member(NamedTuple):
    """Of the family: in what it differs."""

    embedding_std: float
    context_length: int = 512


FAMILY = {
    "warren/tiny": Member(0.07),
    "warren/tiny-lora": Member(0.2),
    "warren/tiny-long": Member(0.07, context_length=16_384),
}
"""By name."""

_RECIPE = 2
_BUILD_S = 600.0
_MAX_BUILDERS = 3


def ensure_tiny(
    name: str,
    models_folder: Path,
    tell: Callable[[str], None] | None = None,
    build: Callable[[str, Path], None] | None = None,
) -> Path:
    """The folder of a member of the family below `models_folder`, built if it is not there yet.

    `tell` hears that it is built, which takes seconds.

    A child process builds, so that whoever asks need not carry torch; who carries it anyway may
    give `build`, of a name and its folder. Raises `OSError` when the folder can't be written, or
    the child takes too long.
    """
    folder = models_folder / f"{name}-r{_RECIPE}"
    if not folder.is_dir():
        if tell is not None:
            tell(f"building {name}, once")
        folder.parent.mkdir(parents=True, exist_ok=True)
        (build or _build_in_child)(name, folder)
    return folder


def _build_in_child(name: str, folder: Path) -> None:
    """A builder that was killed says nothing about the build: another one tries again."""
    built = _built(name, folder)
    for _ in range(_MAX_BUILDERS - 1):
        if built.returncode != -signal.SIGKILL:
            break
        built = _built(name, folder)
    if built.returncode != 0:
        reason = (built.stderr.strip().splitlines() or ["no output"])[-1]
        raise OSError(f"{name} could not be built in {folder}: {reason}")


def _built(name: str, folder: Path) -> "subprocess.CompletedProcess[str]":
    builder = "warren_gpu_worker.base_models.tiny_build"
    command = [sys.executable, "-m", builder, str(folder), *map(str, FAMILY[name])]
    try:
        return subprocess.run(
            command,
            env={**os.environ, "OMP_NUM_THREADS": "1"},
            capture_output=True,
            text=True,
            check=False,
            timeout=_BUILD_S,
        )
    except subprocess.TimeoutExpired as error:
        raise OSError(f"{name} was not built in {folder} within {_BUILD_S:.0f} s") from error
