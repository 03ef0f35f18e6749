"""Numbers and times in words that people read at a glance."""

import time
from collections.abc import Sequence
from itertools import pairwise
from statistics import fmean

from warren_schemas.config import TrainConfig
from warren_schemas.events import Phase, RunOutcome, RunState
from warren_schemas.http import QueuePlace

_OUTCOMES = {
    RunOutcome.EVALUATED: "evaluated",
    RunOutcome.NOTHING_LEARNED: "nothing learned",
    RunOutcome.NOTHING_TO_DO: "nothing to do",
}
_PHASES = {Phase.SFT: "SFT step", Phase.TRAINING: "step"}
_BARS = "▁▂▃▄▅▆▇█"


def duration(seconds: float) -> str:
    """`4.2 s`, `3:07`, `1:02:33`, `2 d 03 h`."""
    if seconds < 10:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    minutes, rest = divmod(whole, 60)
    hours, minutes = divmod(minutes, 60)
    if hours >= 24:
        return f"{hours // 24} d {hours % 24:02} h"
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def shared_with(users: Sequence[str]) -> str:
    """Names, and `everybody` for `*`."""
    return ", ".join("everybody" if user == "*" else user for user in users)


def ago(unix_s: float, now_s: float | None = None) -> str:
    """`just now`, `42 s ago`, `3 min ago`, `5 h ago`, `2 d ago`."""
    past_s = max(0.0, (time.time() if now_s is None else now_s) - unix_s)
    if past_s < 5:
        return "just now"
    for unit, size_s, limit_s in (("s", 1, 60), ("min", 60, 3600), ("h", 3600, 86400)):
        if past_s < limit_s:
            return f"{past_s / size_s:.0f} {unit} ago"
    return f"{past_s / 86400:.0f} d ago"


def count(number: float) -> str:
    """A whole number in groups: `12,345`."""
    return f"{number:,.0f}"


def counted(number: int, noun: str) -> str:
    """`1 row`, `12 rows`."""
    return f"{count(number)} {noun if number == 1 else f'{noun}s'}"


def decimal(number: float | None, digits: int = 3) -> str:
    return "-" if number is None else f"{number:.{digits}f}"


def queued(place: QueuePlace) -> str:
    """Where a run stands among those that wait for a trainer."""
    return f"{place.position}: {place.reason}"


def ending(state: RunState, outcome: RunOutcome | None) -> str:
    """What a run is, or came to: a run that learned nothing is not just `completed`."""
    return _OUTCOMES.get(outcome, str(state)) if outcome else str(state)


def step_label(phase: Phase | None) -> str:
    """What is counted: `step` always means a step of reinforcement learning."""
    return _PHASES.get(phase, "step") if phase else "step"


def sparkline(values: Sequence[float], width: int) -> str:
    """All values in at most `width` bars, each the mean of its share, scaled to their range."""
    n_bars = min(width, len(values))
    edges = [round(i * len(values) / n_bars) for i in range(n_bars + 1)] if n_bars else [0]
    means = [fmean(values[a:b]) for a, b in pairwise(edges)]
    low, high = min(means, default=0.0), max(means, default=0.0)
    span = (high - low) or 1.0
    return "".join(_BARS[min(7, int((mean - low) / span * 8))] for mean in means)


def how_evaluated(config: TrainConfig | None) -> str:
    """How the answers behind a reward before and after were chosen. Training samples, mostly at another
    temperature, so that its rewards and these can't be compared."""
    if config is None or config.evaluation is None:
        return ""
    temperature = config.evaluation.temperature
    return " (greedy)" if temperature == 0 else f" (at temperature {temperature:g})"
