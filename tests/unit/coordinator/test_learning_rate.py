"""The learning rate of each step."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from warren_gateway.coordinator.learning.learning_rate import learning_rate
from warren_schemas.config import OptimizerConfig, ScheduleKind
from warren_schemas.errors import ConfigurationError


def rates(n_steps: int, **changes: object) -> list[float]:
    optimizer = OptimizerConfig.model_validate({"learning_rate": 1.0, **changes})
    return [learning_rate(optimizer, step, n_steps) for step in range(n_steps)]


def test_a_constant_rate_rises_and_stays() -> None:
    assert rates(6, warmup_steps=4) == pytest.approx([0.25, 0.5, 0.75, 1, 1, 1])


def test_a_linear_rate_falls_in_equal_parts() -> None:
    assert rates(6, warmup_steps=2, schedule="linear") == pytest.approx(
        [0.5, 1, 1, 0.75, 0.5, 0.25]
    )


def test_a_cosine_rate_is_half_way_down_in_the_middle() -> None:
    found = rates(8, schedule="cosine", floor=0.2)
    assert found[4] == pytest.approx(0.6)
    assert found[2] == pytest.approx(0.2 + 0.8 * 0.5 * (1 + math.cos(math.pi / 4)))


@given(
    st.sampled_from(["linear", "cosine"]),
    st.integers(0, 30),
    st.integers(1, 40),
    st.floats(0, 1),
)
def test_rates_rise_once_fall_once_and_keep_above_the_floor(
    schedule: str, warmup_steps: int, n_steps: int, floor: float
) -> None:
    found = rates(n_steps, schedule=schedule, warmup_steps=warmup_steps, floor=floor)
    top = found.index(max(found))
    assert found[: top + 1] == sorted(found[: top + 1])
    assert found[top:] == sorted(found[top:], reverse=True)
    assert all(0 < rate <= 1 for rate in found)
    assert all(rate >= floor * (1 - 1e-12) for rate in found[warmup_steps:])


def test_a_floor_without_a_fall_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="a constant one doesn't fall"):
        OptimizerConfig(floor=0.1)
    assert OptimizerConfig(floor=0.1, schedule=ScheduleKind.LINEAR).floor == 0.1
