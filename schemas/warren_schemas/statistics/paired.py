"""Two evaluations of the same tasks, compared task by task.

The difference of each task's means is one observation, so that what tasks differ in falls out: E. Miller,
"Adding Error Bars to Evals" (arXiv:2411.00640, section 4.2). The interval is the mean difference plus and minus
1.96 standard errors, a normal approximation. The p-value makes none: it is that of the sign-flip (paired) permutation
test, two-sided, of the hypothesis that each task's difference is as likely as its negative (R. A. Fisher, "The Design of
Experiments", 1935, section 21). Up to `MOST_EXACT` tasks that differ all assignments of signs are counted; beyond, `N_FLIPS` random
ones with a fixed seed, where p = (1 + hits) / (1 + N_FLIPS), which is never 0 (Phipson and Smyth 2010).
"""

import math
from collections.abc import Sequence
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from warren_schemas.statistics.clustered import clustered_mean

MOST_EXACT = 18
N_FLIPS = 20_000
Z_95 = 1.959963984540054
_BLOCK = 256
_SLACK = 1e-9
"""Of the sum of all differences: sums that rounding alone tells apart are equal."""

Method = Literal["exact", "random"]


class PairedDifference(NamedTuple):
    mean: float
    standard_error: float | None
    """None for a single task."""
    low: float | None
    high: float | None
    """Bounds of the 95 % interval."""
    p_value: float
    method: Method


def paired_difference(differences: Sequence[float]) -> PairedDifference:
    """Of at least one task. Raises `ValueError` for none."""
    estimate = clustered_mean([[d] for d in differences])
    if estimate is None:
        raise ValueError("nothing to compare: no task is in both")
    mean, error = estimate
    low, high = (None, None) if error is None else (mean - Z_95 * error, mean + Z_95 * error)
    p_value, method = sign_flip_p(differences)
    return PairedDifference(mean, error, low, high, p_value, method)


def sign_flip_p(differences: Sequence[float]) -> tuple[float, Method]:
    """Two-sided. Tasks without a difference say nothing for either side."""
    moved = np.array([d for d in differences if d], np.float64)
    if not moved.size:
        return 1.0, "exact"
    limit = abs(float(moved.sum())) - _SLACK * float(np.abs(moved).sum())
    if moved.size <= MOST_EXACT:
        return float(np.mean(np.abs(_all_sums(moved)) >= limit)), "exact"
    hits = sum(int(np.sum(np.abs(sums) >= limit)) for sums in _random_sums(moved))
    return (1 + hits) / (1 + N_FLIPS), "random"


def _all_sums(moved: NDArray[np.float64]) -> NDArray[np.float64]:
    sums = np.zeros(1)
    for difference in moved:
        sums = np.concatenate([sums + difference, sums - difference])
    return sums


def _random_sums(moved: NDArray[np.float64]) -> "list[NDArray[np.float64]]":
    random = np.random.Generator(np.random.PCG64(0))
    blocks = [_BLOCK] * (N_FLIPS // _BLOCK) + [N_FLIPS % _BLOCK]
    n_bytes = math.ceil(moved.size / 8)
    found: list[NDArray[np.float64]] = []
    for n_rows in blocks:
        drawn = random.integers(0, 256, (n_rows, n_bytes), np.uint8)
        signs = np.unpackbits(drawn, axis=1, count=moved.size).astype(np.float64) * 2 - 1
        found.append(signs @ moved)
    return found
