"""What alarms are judged by beside the newest step, and which of them hold. Written by `alarms` alone."""

from pydantic import BaseModel, ConfigDict, Field


class AlarmState(BaseModel):
    model_config = ConfigDict(extra="forbid")

    streaks: dict[str, int] = Field(default_factory=dict[str, int])
    """By alarm: steps in a row, the newest among them, in which its predicate held."""
    recent: dict[str, list[float]] = Field(default_factory=dict[str, list[float]])
    """By tag: its values in the newest steps that reported it, the last of them not included."""
    n_ended: int = 0
    """Episodes that had completed by the last step."""
    n_failed: int = 0
    """Attempts that had failed by their environment's doing."""
    stop_reason: str | None = None
    """Which alarm ends the run, and why."""
