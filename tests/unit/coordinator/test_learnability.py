"""The chances of a curriculum: from counts alone, and most where a policy solves half."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from warren_gateway.coordinator.rollouts.curricula.learnability import (
    drawn,
    learnability,
    point,
    probabilities,
    solve_rates,
)

counts = st.lists(
    st.tuples(st.floats(0, 1), st.floats(0, 1000)).map(lambda each: (each[0] * each[1], each[1])),
    min_size=2,
    max_size=40,
)
shares = st.floats(0.01, 1.0)


def test_what_is_solved_half_the_time_is_the_likeliest_and_mastery_as_unlikely_as_failure() -> None:
    rates = solve_rates([0, 4, 8], [8, 8, 8])
    assert rates == [0.1, 0.5, 0.9]
    assert learnability(rates) == pytest.approx([0.09, 0.25, 0.09])
    never, half, always = probabilities(rates, 0.2, 1.0)
    assert never == pytest.approx(always)
    assert half == pytest.approx(0.8 * 0.25 / 0.43 + 0.2 / 3)


def test_what_nobody_has_tried_is_as_good_as_solved_half_the_time() -> None:
    tried, untried = probabilities(solve_rates([8, 0], [8, 0]), 0.2, 1.0)
    assert untried > tried
    assert solve_rates([0], [0]) == [0.5]


def test_a_lower_temperature_prefers_them_more() -> None:
    rates = [0.1, 0.5, 0.9]
    warm, cold = (probabilities(rates, 0.0, temperature)[1] for temperature in (1.0, 0.5))
    assert warm == pytest.approx(0.25 / 0.43)
    assert cold == pytest.approx(0.25**2 / (0.25**2 + 2 * 0.09**2))


def test_a_share_of_1_draws_all_alike() -> None:
    assert probabilities(solve_rates([0, 4, 8], [8, 8, 8]), 1.0, 0.5) == pytest.approx([1 / 3] * 3)


@given(counts, shares, st.floats(0.01, 10.0))
def test_chances_are_chances_and_nothing_is_forgotten(
    played: list[tuple[float, float]], uniform: float, temperature: float
) -> None:
    rates = solve_rates([solved for solved, _ in played], [n for _, n in played])
    chances = probabilities(rates, uniform, temperature)
    assert sum(chances) == pytest.approx(1.0)
    assert min(chances) >= uniform / len(chances) * (1 - 1e-9)
    nearest = min(range(len(rates)), key=lambda i: abs(rates[i] - 0.5))
    assert chances[nearest] == pytest.approx(max(chances))


@given(st.lists(st.floats(0.001, 1.0), min_size=1, max_size=20), st.floats(0, 1, exclude_max=True))
def test_a_draw_is_one_of_them_and_a_later_point_draws_none_before_it(
    chances: list[float], at: float
) -> None:
    place = drawn(chances, at)
    assert 0 <= place < len(chances)
    assert drawn(chances, at / 2) <= place
    assert drawn(chances, 0.0) == 0


def test_draws_are_as_frequent_as_their_chances() -> None:
    chances = [0.1, 0.6, 0.3]
    n = 20_000
    found = Counter(drawn(chances, point(1, 0, number)) for number in range(n))
    assert [found[i] / n for i in range(3)] == pytest.approx(chances, abs=0.02)
    assert point(1, 0, 7) == point(1, 0, 7) != point(2, 0, 7)
