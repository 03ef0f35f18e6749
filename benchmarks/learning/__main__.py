"""Train, print one table, and write the curves to `benchmarks/curves/`."""

import argparse
import resource
import tempfile
from pathlib import Path

from benchmarks.learning.curves import svg
from benchmarks.learning.training import Record, site_in, trained
from rich.console import Console
from rich.table import Table

from warren.configs import read_config
from warren_up.demo import free_port
from warren_up.process import run as run_in_loop

ROOT = Path(__file__).parents[2]
CURVES = ROOT / "benchmarks" / "curves"
CASES = {
    "gomoku": {"env/win": "win rate"},
    "arithmetic_tiny": {"env/exact": "right", "reward/mean": "reward"},
    "several_environments": {
        "reward/env/guess": "reward of guess",
        "reward/env/arithmetic": "reward of arithmetic",
    },
}
"""Example -> tags of its metrics and their names for people."""


def learned(case: str, sets: list[str], folder: Path) -> Record:
    config = read_config(ROOT / "examples" / f"{case}.yaml", sets)
    begun_s = cpu_s()
    with tempfile.TemporaryDirectory(prefix="warren-benchmark-") as home:
        site = site_in(Path(home), free_port(), config.model.base)
        record = run_in_loop(lambda: trained(site, config), site)
    record.cpu_s = cpu_s() - begun_s
    curves = {label: record.curve(tag) for tag, label in CASES[case].items()}
    title = f"{case}: {config.model.base}, CPU, batches while training"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{case}.svg").write_text(svg(title, curves))
    return record


def cpu_s() -> float:
    """Of this process and of all children that have ended."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(usage.ru_utime + usage.ru_stime for usage in used)


def table(records: dict[str, Record]) -> Table:
    shown = Table(title="batches: mean of the first and last steps; evaluated: fresh episodes")
    for column in ("example", "", "first", "last", "before", "after", "steps", "wall s", "CPU s"):
        shown.add_column(column, justify="left" if column in ("example", "") else "right")
    for case, record in records.items():
        for tag, label in CASES[case].items():
            judged = record.evaluated(tag) or ("", "")
            cells = (*record.ends(tag), *judged)
            shown.add_row(
                case,
                label,
                *(cell if isinstance(cell, str) else f"{cell:.3f}" for cell in cells),
                str(len(record.steps)),
                f"{record.wall_s:.0f}",
                f"{record.cpu_s:.0f}",
            )
    return shown


def main() -> None:
    parser = argparse.ArgumentParser(prog="benchmarks.learning", description=__doc__)
    parser.add_argument("cases", nargs="*", choices=[*CASES, []], default=[])
    parser.add_argument("--set", action="append", default=[], dest="sets", metavar="KEY=VALUE")
    parser.add_argument("--out", type=Path, default=CURVES, help="folder of the curves")
    options = parser.parse_args()
    records = {case: learned(case, options.sets, options.out) for case in options.cases or CASES}
    Console(width=110).print(table(records))


if __name__ == "__main__":
    main()
