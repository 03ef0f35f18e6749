"""Is the demo's game learned as well from truncated samples? `examples/guess.yaml` by `top_p` and by seed.

`python -m benchmarks.learning.truncated` trains it with `top_p: 0.6` and without truncation, each with three
seeds and nothing else different, and prints one row for each run. In place of the example's entropy bonus
stands a KL penalty (`KL`), which brings back what truncation cut.
"""

import argparse
import tempfile
from itertools import product
from pathlib import Path
from statistics import fmean

from benchmarks.learning.training import Record, site_in, trained
from rich.console import Console
from rich.table import Table

from warren.configs import read_config
from warren_up.demo import free_port
from warren_up.process import run as run_in_loop

EXAMPLE = Path(__file__).parents[2] / "examples" / "guess.yaml"
KL = ("algorithm.kl.coefficient=0.05", "algorithm.entropy_coefficient=0")
N_STEPS_JUDGED = 16
"""What `limits.stop_at_reward` averages."""
N_STEPS_WINDOW = 50
COLUMNS = (
    "top_p", "seed", "steps", "reward, last 16 steps", "greedy before", "greedy after",
    "unreadable, worst 50 steps", "alone, last 16 steps",
)  # fmt: skip


def learned(sets: list[str]) -> Record:
    config = read_config(EXAMPLE, sets)
    with tempfile.TemporaryDirectory(prefix="warren-benchmark-") as home:
        site = site_in(Path(home), free_port(), config.model.base)
        return run_in_loop(lambda: trained(site, config), site)


def row(record: Record) -> list[str]:
    """What a run came to, without its settings."""
    before, after = record.evaluated("reward/mean") or (0.0, 0.0)
    values = (_last(record, "reward/mean"), before, after, _worst(record, "env/unreadable"))
    alone = _last(record, "seq/single_candidate_frac")
    return [str(len(record.steps)), *(f"{value:.3f}" for value in (*values, alone))]


def _last(record: Record, tag: str) -> float:
    """0 for what no step has, as of samples that nothing was cut from."""
    return fmean([value for _, value in record.curve(tag)][-N_STEPS_JUDGED:] or [0.0])


def _worst(record: Record, tag: str) -> float:
    """The highest mean of consecutive steps."""
    values = [value for _, value in record.curve(tag)]
    starts = range(max(1, len(values) - N_STEPS_WINDOW + 1))
    return max(fmean(values[start : start + N_STEPS_WINDOW]) for start in starts)


def main() -> None:
    parser = argparse.ArgumentParser(prog="benchmarks.learning.truncated", description=__doc__)
    parser.add_argument("--top-p", nargs="*", type=float, default=[0.6, 1.0], metavar="P")
    parser.add_argument("--seeds", nargs="*", type=int, default=[1, 2, 3], metavar="N")
    parser.add_argument("--set", action="append", default=[], dest="sets", metavar="KEY=VALUE")
    options = parser.parse_args()
    shown = Table(*COLUMNS)
    for top_p, seed in product(options.top_p, options.seeds):
        record = learned([*KL, *options.sets, f"sampling.top_p={top_p}", f"seed={seed}"])
        shown.add_row(str(top_p), str(seed), *row(record))
    Console(width=130).print(shown)


if __name__ == "__main__":
    main()
