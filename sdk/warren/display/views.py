"""How a followed run is shown: lines for a pipe or a log, JSON lines for programs.

The view for a terminal is in `live`; all of them draw the same `Progress`.
"""

import json
from contextlib import AbstractContextManager
from typing import Protocol, Self

from warren.display.output import Output
from warren.display.progress import Progress
from warren.display.words import count, decimal, duration, ending, step_label
from warren.streams.events import Event
from warren_schemas.events import (
    EvaluationCompleted,
    Phase,
    StateChanged,
    StepCompleted,
    WaitingEnded,
    WaitingStarted,
    WarningRaised,
)

REWARD = "reward (sampled)"
"""Of the episodes that are trained on; evaluations may play greedily."""
STEP_LINE_EVERY_S = 5.0
"""Steps come many per second; a log gets one line in this time, and each phase's last."""


class View(AbstractContextManager["View"], Protocol):
    wants_queues: bool
    """True where somebody looks at the depth of the queues."""

    def show(self, progress: Progress, event: Event | None = None) -> None:
        """Called after each event, and without one when the queues or the connection changed."""
        ...


class PlainView:
    """One line for each thing that happened, steps now and then."""

    wants_queues = False

    def __init__(self, output: Output) -> None:
        self._output = output
        self._step_line_s = float("-inf")
        self._lost: str | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def show(self, progress: Progress, event: Event | None = None) -> None:
        if progress.lost != self._lost:
            self._lost = progress.lost
            self._output.line(f"{self._lost}; trying again" if self._lost else "gateway is back")
        if event is None:
            return
        line = describe(progress, event)
        if line is not None and self._is_due(event):
            self._output.line(line)

    def _is_due(self, event: Event) -> bool:
        if not isinstance(event.body, StepCompleted):
            return True
        is_last = event.body.step == event.body.n_steps
        if not is_last and event.at_s - self._step_line_s < STEP_LINE_EVERY_S:
            return False
        self._step_line_s = event.at_s
        return True


class JsonView:
    """One line of JSON for each event, all of it."""

    wants_queues = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def show(self, progress: Progress, event: Event | None = None) -> None:
        if event is not None:
            body = event.body.model_dump(mode="json")
            print(json.dumps({"offset": event.offset, "at_s": event.at_s, **body}), flush=True)


def describe(progress: Progress, event: Event) -> str | None:
    """An event as one line, `progress` being that after it. Why a run ended is the summary's to say."""
    match event.body:
        case StateChanged() as body:
            reason = f": {body.reason}" if body.reason and not body.state.is_final else ""
            phase = f" ({body.phase})" if body.phase and not body.state.is_final else ""
            return f"{ending(body.state, body.outcome)}{phase}{reason}"
        case StepCompleted():
            return _step_line(progress)
        case EvaluationCompleted() as body:
            return evaluation_line(body, progress.how_evaluated)
        case WaitingStarted(reason=reason):
            return f"waiting: {reason}"
        case WaitingEnded():
            return "waiting is over"
        case WarningRaised(message=message):
            return f"warning: {message}"


def evaluation_line(body: EvaluationCompleted, how: str) -> str:
    return (
        f"evaluation {body.when}: reward {body.reward_mean:.3f}{how}"
        f" over {count(body.n_episodes)} episodes, at step {body.step} ({_version(body)})"
    )


def _version(body: EvaluationCompleted) -> str:
    if body.due_version is None:
        return f"version {body.version}"
    return f"version {body.version}: {body.due_version} was no longer kept"


def _step_line(progress: Progress) -> str:
    of = f"/{progress.phase_steps}" if progress.phase_steps else ""
    parts = [f"{step_label(progress.phase)} {progress.step}{of}"]
    for label, value in headline(progress):
        parts.append(f"{label} {value}")
    if progress.remaining_s is not None:
        parts.append(f"{duration(progress.remaining_s)} left")
    return "  ".join(parts)


def headline(progress: Progress) -> list[tuple[str, str]]:
    """The few numbers that tell how it goes; those that the run does not report are left out."""
    lag_mean, lag_max = progress.metric("stale/lag_mean"), progress.metric("stale/lag_max")
    tokens_s = progress.rates.get("rollout/tokens_s") or None
    numbers = {
        REWARD: _decimal(progress.metric("reward/mean")),
        "loss": _decimal(progress.metric("policy/loss") if progress.phase is Phase.SFT else None),
        "loss per token": _decimal(progress.metric("policy/loss_per_token")),
        "evaluation loss": _decimal(progress.evaluation_loss),
        "exact": _decimal(progress.metric("env/exact")),
        "staleness": None if lag_mean is None else f"{lag_mean:.1f} (max {lag_max or 0:.0f})",
        "tokens/s": None if tokens_s is None else count(tokens_s),
        "episodes": count(progress.n_episodes) if progress.n_episodes else None,
        "updates": count(progress.updates) if progress.updates else None,
    }
    return [(label, value) for label, value in numbers.items() if value is not None]


def _decimal(number: float | None) -> str | None:
    return None if number is None else decimal(number)
