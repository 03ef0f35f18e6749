"""Run the comparison: `python -m benchmarks.episodes [--samples 51200] [--seed 1] [--only Warren]`.

The sides run one after the other, each in processes of its own. TRL's side needs
`benchmarks/episodes/setup_trl.sh` once; without it the table has no such row.
"""

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from benchmarks.episodes.recipe import Figures
from rich.console import Console
from rich.table import Table

from warren_gpu_worker.base_models.tiny import ensure_tiny

ROOT = Path(__file__).parents[2]
TRL_PYTHON = ROOT / ".venv-trl" / "bin" / "python"
WARREN, SHARED, TRL, BARE = "Warren", "Warren, shared", "TRL GRPOTrainer", "bare torch loop"
COLUMNS = (
    "side", "samples / CPU-s", "samples / s", "CPU µs / sample", "of these, environments", "reward",
    "exact",
)  # fmt: skip


def sides(base_model: Path) -> Iterator[tuple[str, list[str]]]:
    """Each side and the command that measures it."""
    yield BARE, [sys.executable, "-m", "benchmarks.episodes.bare_loop", str(base_model)]
    if TRL_PYTHON.exists():
        yield TRL, [str(TRL_PYTHON), "-m", "benchmarks.episodes.trl_side", str(base_model)]
    warren = [sys.executable, "-m", "benchmarks.episodes.warren_side"]
    yield WARREN, warren
    yield SHARED, [*warren, "--shared"]


def measure(command: list[str], log: Path) -> Figures:
    """The figures in the last line that the side prints."""
    with log.open("w") as errors:
        done = subprocess.run(
            command,
            cwd=ROOT,
            env={**os.environ, "OMP_NUM_THREADS": "1"},
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            check=False,
        )
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(command)} failed:\n{log.read_text()[-2000:]}")
    return Figures.from_line(done.stdout.strip().splitlines()[-1])


def table(results: dict[str, Figures]) -> Table:
    shown = Table(title="reverse three digits: samples of reinforcement learning")
    for column in COLUMNS:
        shown.add_column(column, justify="left" if column == "side" else "right")
    peers = [peer for peer in (TRL, BARE, SHARED) if peer in results]
    for peer in peers:
        shown.add_column(f": {peer}", justify="right")
    for side, row in results.items():
        shown.add_row(
            side,
            f"{row.samples_per_cpu_s:,.0f}",
            f"{row.samples_per_s:,.0f}",
            f"{1e6 / row.samples_per_cpu_s:,.0f}",
            f"{1e6 * row.hosts_cpu_s / row.n_samples:,.0f}" if row.hosts_cpu_s else "",
            f"{row.reward:.3f}",
            f"{row.exact:.3f}",
            *(f"{row.samples_per_cpu_s / results[peer].samples_per_cpu_s:.2f}" for peer in peers),
        )
    return shown


def main() -> None:
    parser = argparse.ArgumentParser(prog="benchmarks.episodes", description=__doc__)
    parser.add_argument("--samples", type=int, default=51_200, help="for each side")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", default="", help="sides whose name begins so")
    options = parser.parse_args()
    more = ["--samples", str(options.samples), "--seed", str(options.seed)]
    console = Console(width=140)
    results: dict[str, Figures] = {}
    with tempfile.TemporaryDirectory(prefix="warren-benchmark-") as folder:
        base_model = ensure_tiny("warren/tiny", Path(folder))
        for side, command in sides(base_model):
            if not side.startswith(options.only):
                continue
            console.print(f"{side} … (load {os.getloadavg()[0]:.1f})")
            results[side] = measure([*command, *more], Path(folder) / "log")
    console.print(table(results))
    if not TRL_PYTHON.exists():
        console.print("No row for TRL: run benchmarks/episodes/setup_trl.sh first.")


if __name__ == "__main__":
    main()
