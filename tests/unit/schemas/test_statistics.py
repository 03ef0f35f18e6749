"""Statistics of evaluations against brute force: every subset, every resampling, every assignment of signs."""

import math
from itertools import combinations, product
from statistics import fmean, stdev

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from warren_schemas.statistics.clustered import clustered_mean
from warren_schemas.statistics.paired import MOST_EXACT, paired_difference, sign_flip_p
from warren_schemas.statistics.pass_at_k import pass_at_k

NUMBERS = st.floats(-2.0, 2.0).map(lambda x: round(x, 3))
CLUSTERS = st.lists(st.lists(NUMBERS, max_size=4), max_size=6)


@given(st.integers(1, 7).flatmap(lambda n: st.lists(st.booleans(), min_size=n, max_size=n)))
def test_pass_at_k_is_the_share_of_subsets_with_a_solution(solved: list[bool]) -> None:
    for k in range(1, len(solved) + 1):
        share = fmean(any(chosen) for chosen in combinations(solved, k))
        assert pass_at_k(len(solved), sum(solved), k) == pytest.approx(share)


@pytest.mark.parametrize(("n", "c", "k"), [(3, 4, 1), (3, -1, 1), (3, 1, 4), (3, 1, 0)])
def test_pass_at_k_of_fewer_samples_is_not_defined(n: int, c: int, k: int) -> None:
    with pytest.raises(ValueError, match="not defined"):
        pass_at_k(n, c, k)


@given(CLUSTERS)
def test_the_clustered_error_is_the_double_sum_within_clusters(clusters: list[list[float]]) -> None:
    samples = [(i, x) for i, cluster in enumerate(clusters) for x in cluster]
    estimate = clustered_mean(clusters)
    if not samples:
        assert estimate is None
        return
    assert estimate is not None
    mean = fmean(x for _, x in samples)
    assert estimate.mean == pytest.approx(mean)
    n_clusters = len({i for i, _ in samples})
    if n_clusters < 2:
        assert estimate.standard_error is None
        return
    within = sum((x - mean) * (y - mean) for i, x in samples for j, y in samples if i == j)
    expected = math.sqrt(max(within, 0.0) * n_clusters / (n_clusters - 1)) / len(samples)
    assert estimate.standard_error == pytest.approx(expected, abs=1e-6)


@given(st.lists(NUMBERS, min_size=2, max_size=9))
def test_with_one_sample_per_task_it_is_the_usual_one(rewards: list[float]) -> None:
    estimate = clustered_mean([[x] for x in rewards])
    assert estimate is not None
    assert estimate.standard_error == pytest.approx(
        stdev(rewards) / math.sqrt(len(rewards)), abs=1e-9
    )


def test_alike_samples_of_a_task_say_no_more_than_one() -> None:
    once, again = (
        clustered_mean([[0.0], [1.0], [1.0]]),
        clustered_mean([[0.0] * 8, [1.0] * 8, [1.0] * 8]),
    )
    assert once is not None
    assert again == pytest.approx(once)


@given(st.lists(st.integers(-3, 3), min_size=1, max_size=7))
def test_the_exact_p_value_counts_every_assignment_of_signs(differences: list[int]) -> None:
    sums = [
        sum(s * d for s, d in zip(signs, differences, strict=True))
        for signs in product((1, -1), repeat=len(differences))
    ]
    share = fmean(abs(total) >= abs(sum(differences)) for total in sums)
    p_value, method = sign_flip_p([d / 10 for d in differences])
    assert (p_value, method) == (pytest.approx(share), "exact")


def test_the_random_p_value_is_near_the_exact_one() -> None:
    differences = list(np.random.Generator(np.random.PCG64(1)).normal(0.25, 1.0, MOST_EXACT))
    exact, _ = sign_flip_p(differences)
    more = [*differences, 1e-9]
    p_value, method = sign_flip_p(more)
    assert method == "random"
    assert p_value == pytest.approx(exact, abs=0.02)
    assert sign_flip_p(more) == (p_value, method), "with a fixed seed"


def test_a_paired_difference() -> None:
    found = paired_difference([0.5, 0.0, 0.25, 0.25])
    assert found.mean == pytest.approx(0.25)
    error = stdev([0.5, 0.0, 0.25, 0.25]) / 2
    assert found.standard_error == pytest.approx(error)
    assert (found.low, found.high) == pytest.approx(
        (0.25 - 1.959964 * error, 0.25 + 1.959964 * error)
    )
    assert (found.p_value, found.method) == (0.25, "exact")
    assert paired_difference([0.0, 0.0]).p_value == 1.0
    with pytest.raises(ValueError, match="no task"):
        paired_difference([])
