"""How far a run is, folded from its events. Values only: views draw them, nothing here prints.

Invariant: a `Progress` never changes, so a view may draw one while the next is being made.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from warren.display.words import how_evaluated
from warren.streams.events import Event
from warren_schemas.events import (
    EvaluationCompleted,
    Phase,
    RunOutcome,
    RunState,
    StateChanged,
    StepCompleted,
    WaitingEnded,
    WaitingStarted,
    WarningRaised,
)
from warren_schemas.http import QueueView, RunView

CURVE_POINTS = 240
"""Most points of a curve; beyond it two points become one."""
SMOOTHING = 0.2
"""Weight of the newest step in a smoothed rate."""


@dataclass(frozen=True, slots=True)
class Curve:
    """A whole history in few points, each the mean of as many values (the last of fewer)."""

    points: tuple[float, ...] = ()
    n_per_point: int = 1
    n_in_last: int = 0

    def with_value(self, value: float) -> "Curve":
        if self.points and self.n_in_last < self.n_per_point:
            n = self.n_in_last + 1
            last = self.points[-1] + (value - self.points[-1]) / n
            return replace(self, points=(*self.points[:-1], last), n_in_last=n)
        if len(self.points) < CURVE_POINTS:
            return replace(self, points=(*self.points, value), n_in_last=1)
        halves = zip(self.points[::2], self.points[1::2], strict=True)
        thinned = tuple((a + b) / 2 for a, b in halves)
        return Curve((*thinned, value), 2 * self.n_per_point, 1)


@dataclass(frozen=True, slots=True)
class Progress:
    run: str
    name: str
    created_s: float
    n_steps: int
    state: RunState = RunState.QUEUED
    phase: Phase | None = None
    step: int = 0
    """Of the phase it is in."""
    phase_steps: int = 0
    phase_started_s: float | None = None
    """When the first step of the phase was done."""
    updates: int = 0
    n_episodes: int = 0
    at_s: float = 0.0
    """When the newest event happened, Unix time."""
    metrics: Mapping[str, float] = field(default_factory=dict[str, float])
    rewards: Curve = Curve()
    rates: Mapping[str, float] = field(default_factory=dict[str, float])
    """The metrics per second, smoothed over steps."""
    evaluation_loss: float | None = None
    """The newest one of SFT, which not every step reports."""
    evaluations: tuple[EvaluationCompleted, ...] = ()
    how_evaluated: str = ""
    warnings: tuple[str, ...] = ()
    waiting_for: str | None = None
    reason: str | None = None
    outcome: RunOutcome | None = None
    queues: tuple[QueueView, ...] = ()
    lost: str | None = None
    """Why the gateway can't be heard at the moment."""

    def after(self, event: Event) -> "Progress":
        """The progress once this event has happened."""
        here = replace(self, at_s=event.at_s)
        match event.body:
            case StateChanged() as body:
                return _entered(here, body)
            case StepCompleted() as body:
                return _stepped(here, body)
            case EvaluationCompleted() as body:
                return replace(here, evaluations=(*here.evaluations, body))
            case WaitingStarted(reason=reason):
                return replace(here, waiting_for=reason)
            case WaitingEnded():
                return replace(here, waiting_for=None)
            case WarningRaised(message=message):
                return replace(here, warnings=(*here.warnings, message)[-8:])

    def metric(self, *tags: str) -> float | None:
        """The newest value under the first of these tags that the run reports."""
        return next((self.metrics[tag] for tag in tags if tag in self.metrics), None)

    @property
    def remaining_s(self) -> float | None:
        """Until the phase's last step at the pace so far; None before the second step."""
        if self.phase_started_s is None or self.step < 2 or not self.phase_steps:
            return None
        pace_s = (self.at_s - self.phase_started_s) / (self.step - 1)
        return pace_s * max(0, self.phase_steps - self.step)


def started(view: RunView) -> Progress:
    """The progress of a run of which no event was seen yet."""
    return Progress(
        run=view.id,
        name=view.name,
        created_s=view.created_s,
        n_steps=view.n_steps,
        how_evaluated=how_evaluated(view.config),
        state=view.state,
        waiting_for=view.waiting_for,
        at_s=view.created_s,
    )


def with_queues(progress: Progress, queues: Sequence[QueueView]) -> Progress:
    return replace(progress, queues=tuple(queues))


def _entered(progress: Progress, body: StateChanged) -> Progress:
    phase = body.phase if body.phase is not None else progress.phase
    if phase is not progress.phase:
        progress = replace(progress, step=0, phase_steps=0, phase_started_s=None)
    waiting_for = None if body.state.is_final else progress.waiting_for
    return replace(
        progress,
        state=body.state,
        phase=phase,
        reason=body.reason,
        outcome=body.outcome,
        waiting_for=waiting_for,
    )


def _stepped(progress: Progress, body: StepCompleted) -> Progress:
    is_new = progress.phase is not body.phase or progress.phase_started_s is None
    return replace(
        progress,
        phase=body.phase,
        step=body.step,
        phase_steps=body.n_steps,
        phase_started_s=progress.at_s if is_new else progress.phase_started_s,
        updates=body.updates,
        n_episodes=body.n_episodes,
        metrics=body.metrics,
        rewards=_with_reward(progress.rewards, body),
        rates=_smoothed(progress.rates, body.metrics),
        evaluation_loss=body.metrics.get("evaluation_loss", progress.evaluation_loss),
    )


def _with_reward(rewards: Curve, body: StepCompleted) -> Curve:
    reward = body.metrics.get("reward/mean")
    return rewards if reward is None else rewards.with_value(reward)


def _smoothed(rates: Mapping[str, float], metrics: Mapping[str, float]) -> dict[str, float]:
    news = {tag: value for tag, value in metrics.items() if tag.startswith("rollout/")}
    return {
        **rates,
        **{tag: v + (1 - SMOOTHING) * (rates.get(tag, v) - v) for tag, v in news.items()},
    }
