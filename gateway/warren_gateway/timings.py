"""How long a connection with a client may be quiet, and how long either side is waited for."""

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class EventTimings:
    """Of a run's events as server-sent events."""

    ping_s: float = 15.0
    send_s: float = 30.0
    """A client that takes nothing for this long is let go."""
    quiet_s: float = 5.0
    """When nothing came for this long after the end of a run, its last event is no longer kept."""
    look_s: float = 1.0
    """How often the outbox is looked at while it holds events of a run that is over."""
    store_away_s: float = 60.0
    """How long a store that doesn't answer is asked again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TrajectoryTimings:
    """Of a run's trajectories as lines of JSON."""

    ping_s: float = 10.0
    gone_s: float = 30.0
    """What is known to be in the stream, and does not come for this long, is no longer kept."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerTimings:
    """Of a model's answers as server-sent events."""

    ping_s: float = 10.0
    send_s: float = 30.0
    """A caller that takes nothing for this long is let go."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamTimings:
    """Of all answers that go on for a while."""

    events: EventTimings = field(default_factory=EventTimings)
    trajectories: TrajectoryTimings = field(default_factory=TrajectoryTimings)
    answers: AnswerTimings = field(default_factory=AnswerTimings)
