"""What a run waits for, and since when. Written by `waiting` and `notices.stalled`; not stored,
but for the reason that was told and its beginning, which stand in the run's row."""

from dataclasses import dataclass, field


@dataclass(slots=True)
class StallState:
    """Since when nothing of a run has moved, and how often that was told; see `notices.stalled`."""

    mark: tuple[object, ...] = ()
    """Changes whenever something moves."""
    since_s: float = 0.0
    n_told: int = 0
    reason: str | None = None
    """What was told last."""


@dataclass(slots=True)
class WaitingState:
    reason: str | None = None
    """What the owner was told that the run waits for."""
    since_s: float | None = None
    """When the wait began, whoever drove the run then and whatever it waited for."""
    is_sure: bool = False
    """Workers have had the time to be heard, and it waits all the same."""
    missing_since_s: float | None = None
    was_broker_away: bool = False
    """At the last look."""
    stall: StallState = field(default_factory=StallState)
