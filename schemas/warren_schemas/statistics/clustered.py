"""The mean of samples that come in clusters, and its standard error.

Samples of one task resemble each other, so they say less than as many of different tasks. With the mean
`m` of all `n` samples in `G` clusters, and `r_c` the sum of `x - m` over cluster `c`:

    SE = sqrt(G / (G - 1) * sum_c r_c^2) / n

That is the cluster-robust variance of a mean: E. Miller, "Adding Error Bars to Evals" (arXiv:2411.00640, section
2.2, after Liang and Zeger 1986), with the correction for few clusters of Cameron and Miller, "A Practitioner's Guide
to Cluster-Robust Inference" (2015, section II.B). With one sample per cluster it is the usual s / sqrt(n).
"""

import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple


class Estimate(NamedTuple):
    mean: float
    standard_error: float | None
    """None with fewer than two clusters, which tell nothing of others."""


def clustered_mean(clusters: Iterable[Sequence[float]]) -> Estimate | None:
    """Over all samples; None where there is none. Empty clusters don't count."""
    filled = [cluster for cluster in clusters if cluster]
    n_samples = sum(map(len, filled))
    if not n_samples:
        return None
    mean = math.fsum(x for cluster in filled for x in cluster) / n_samples
    if len(filled) < 2:
        return Estimate(mean, None)
    squares = math.fsum(math.fsum(x - mean for x in cluster) ** 2 for cluster in filled)
    correction = len(filled) / (len(filled) - 1)
    return Estimate(mean, math.sqrt(correction * squares) / n_samples)
