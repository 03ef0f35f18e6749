"""Writes the questions that come with `arithmetic`: run it as a module to write them again.

All 5,050 sums `a+b` with 0 <= a <= b < 100, either number first, in a random order that is always the
same; the first 500 are the split `test`, the rest is `train`.
"""

import random
from importlib import import_module
from pathlib import Path
from typing import Any

from warren_env_worker.environments.arithmetic import SHIPPED

N_TEST = 500
SEED = 20_260_101


def questions() -> dict[str, list[tuple[str, int]]]:
    """Question and answer by split."""
    rng = random.Random(SEED)
    sums = [_sum(rng.sample((a, b), 2)) for a in range(100) for b in range(a, 100)]
    rng.shuffle(sums)
    return {"test": sums[:N_TEST], "train": sums[N_TEST:]}


def write(pattern: str = SHIPPED) -> None:
    """One parquet file for each split; `{split}` in the pattern is its name."""
    arrow: Any = import_module("pyarrow")
    parquet: Any = import_module("pyarrow.parquet")
    for split, rows in questions().items():
        columns = {"question": [q for q, _ in rows], "answer": [a for _, a in rows]}
        parquet.write_table(arrow.table(columns), Path(pattern.replace("{split}", split)))


def _sum(numbers: list[int]) -> tuple[str, int]:
    return "+".join(map(str, numbers)) + "=", sum(numbers)


if __name__ == "__main__":
    write()
