"""Memory of a step, and the update against TRL's: `python -m benchmarks.trainer`.

Each side is a process of its own, and the sides of the update take turns. TRL's needs
`benchmarks/episodes/setup_trl.sh` once; without it that table is left out. Both have one thread, so a
rate is in tokens per second of its CPU, which other work on the machine changes least. What models
that share a worker cost is `python -m benchmarks.trainer.sharing`, and how equal they stay is
`python -m benchmarks.trainer.equality`.
"""

import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from rich.console import Console
from rich.table import Table

from warren_gpu_worker.base_models.tiny import ensure_tiny
from warren_gpu_worker.trainer.supervisor.rank_processes import ENVIRONMENT

ROOT = Path(__file__).parents[2]
TRL_PYTHON = ROOT / ".venv-trl" / "bin" / "python"
ROUNDS = 3


def figures(python: str, module: str, *arguments: str) -> list[float]:
    """The numbers in the last line that the side prints.

    Warren's sides have the environment that the trainer's child has.
    """
    ours = ENVIRONMENT if python == sys.executable else {}
    done = subprocess.run(
        [python, "-m", f"benchmarks.trainer.{module}", *arguments],
        cwd=ROOT,
        env={**os.environ, **ours, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        raise SystemExit(f"{module} failed:\n{done.stderr[-2000:]}")
    return [float(word) for word in done.stdout.strip().splitlines()[-1].split()]


def memory() -> Table:
    shown = Table(
        "a step of 32,768 tokens, vocabulary of 16,384", "before, MiB", "peak, MiB", "of naive"
    )
    found = {side: figures(sys.executable, "memory", side) for side in ("naive", "warren")}
    for side, (before, peak) in found.items():
        share = f"{peak / found['naive'][1]:.2f}"
        shown.add_row(side, f"{before:.0f}", f"{peak:.0f}", share)
    return shown


def update(base_model: Path) -> Table:
    shown = Table("update of warren/tiny, 64 x 48 tokens", "tokens / CPU-s", ": TRL")
    sides = {"TRL": (str(TRL_PYTHON), "trl_side"), "Warren": (sys.executable, "warren_side")}
    found: dict[str, list[float]] = {side: [] for side in sides}
    for _ in range(ROUNDS):
        for side, (python, module) in sides.items():
            found[side] += figures(python, module, str(base_model))
    peer = statistics.median(found["TRL"])
    for side, rates in found.items():
        rate = statistics.median(rates)
        shown.add_row(side, f"{rate:,.0f}", f"{rate / peer:.2f}")
    return shown


def main() -> None:
    console = Console(width=120)
    console.print(memory())
    if TRL_PYTHON.exists():
        with tempfile.TemporaryDirectory() as folder:
            console.print(update(ensure_tiny("warren/tiny", Path(folder))))


if __name__ == "__main__":
    main()
