"""A run's progress, folded from its events."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.fake_gateway import COMPLETED, CONFIG, RUNNING, evaluation, step

from warren.display.progress import CURVE_POINTS, Curve, Progress, started
from warren.display.views import describe
from warren.streams.events import Event
from warren_schemas.events import (
    Phase,
    RunEventBody,
    RunState,
    StateChanged,
    StepCompleted,
    WaitingEnded,
    WaitingStarted,
    WarningRaised,
)
from warren_schemas.http import RunView
from warren_schemas.ids import RunId

VIEW = RunView(
    id=RunId("run_1"),
    name="guess",
    state=RunState.QUEUED,
    n_steps=4,
    created_s=100.0,
    config=CONFIG,
)


def after(bodies: Sequence[RunEventBody], every_s: float = 1.0) -> Progress:
    progress = started(VIEW)
    for i, body in enumerate(bodies):
        progress = progress.after(Event(i, 101.0 + i * every_s, f"msg_{i}", body))
    return progress


def test_steps_evaluations_and_the_end() -> None:
    progress = after([RUNNING, evaluation(0.3), step(1, 4), step(2, 4), COMPLETED])
    assert (progress.state, progress.step, progress.updates) == (RunState.COMPLETED, 2, 2)
    assert progress.rewards.points == (0.25, 0.5)
    assert [e.reward_mean for e in progress.evaluations] == [0.3]


def test_the_rest_of_a_phase_is_foretold_from_its_pace() -> None:
    assert after([RUNNING, step(1, 4)]).remaining_s is None
    assert after([RUNNING, step(1, 4), step(2, 4)], every_s=3.0).remaining_s == pytest.approx(6.0)


def test_a_new_phase_starts_its_own_bar() -> None:
    sft = StepCompleted(phase=Phase.SFT, step=9, n_steps=9, version=9, n_episodes=9, metrics={})
    between = after([sft, RUNNING])
    assert (between.step, between.phase_steps) == (0, 0)
    assert after([sft, RUNNING, step(1, 4)]).remaining_s is None


def test_waiting_ends_with_the_reason_gone_or_with_the_run() -> None:
    waiting = WaitingStarted(reason="no GPU worker")
    assert after([waiting]).waiting_for == "no GPU worker"
    assert after([waiting, WaitingEnded()]).waiting_for is None
    assert after([waiting, StateChanged(state=RunState.CANCELLED)]).waiting_for is None


def test_only_the_newest_warnings_are_kept() -> None:
    warnings = after([WarningRaised(message=f"w{i}") for i in range(20)]).warnings
    assert len(warnings) < 20
    assert warnings[-1:] == ("w19",)


def test_rates_are_smoothed() -> None:
    progress = after(
        [step(1, 4, **{"rollout/tokens_s": 100}), step(2, 4, **{"rollout/tokens_s": 200})]
    )
    assert 100.0 < progress.rates["rollout/tokens_s"] < 200.0


@given(st.lists(st.floats(-1, 1), min_size=1, max_size=3 * CURVE_POINTS))
def test_a_curve_stays_short_and_keeps_the_mean(values: list[float]) -> None:
    curve = Curve()
    for value in values:
        curve = curve.with_value(value)
    assert len(curve.points) <= CURVE_POINTS
    weights = [curve.n_per_point] * (len(curve.points) - 1) + [curve.n_in_last]
    mean = sum(p * w for p, w in zip(curve.points, weights, strict=True)) / sum(weights)
    assert sum(weights) == len(values)
    assert mean == pytest.approx(sum(values) / len(values), abs=1e-9)


def test_a_client_s_own_steps_have_no_end() -> None:
    metrics = {"policy/loss_per_token": 0.5}
    stepped = StepCompleted(
        phase=Phase.TRAINING, step=7, n_steps=0, version=7, n_episodes=0, metrics=metrics
    )
    progress = after([RUNNING, stepped])
    line = describe(progress, Event(1, 102.0, "msg_1", stepped))
    assert line is not None
    assert line.startswith("step 7  ")
    assert "loss per token 0.5" in line
