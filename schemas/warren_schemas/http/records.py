"""Bodies about what a run recorded: its trajectories, metrics and logs."""

from typing import Annotated, Literal

from pydantic import Field

from warren_schemas.base import Frozen
from warren_schemas.config import NonNegativeInt
from warren_schemas.episode import EpisodeEnded
from warren_schemas.events import Phase, RunLogged

__all__ = ["LogView", "MetricsView", "TrajectoryView"]


class TrajectoryView(Frozen):
    """One recorded trajectory: how an episode went, and what became of it."""

    offset: NonNegativeInt
    """Its place in the recording; the next one's is higher."""
    fate: str | None = None
    """`trained`, `evaluated`, `stale`, `failed` or `abandoned`; `superseded` where another ending of the
    episode counted, or it came too late to; null where it is not decided."""
    step: NonNegativeInt | None = None
    """The step of its phase that trained on it, or after which it was an evaluation's."""
    advantage: float | None = None
    """How much better it did than its group; null where it was not trained on."""
    group_size: NonNegativeInt | None = None
    """How many episodes its group has; null while that is not decided."""
    trajectory: EpisodeEnded


class MetricsView(Frozen):
    """What a run reported after one step or one evaluation."""

    number: Annotated[int, Field(ge=1)]
    """Its place among the run's reports: 1, 2, 3 and so on."""
    at_s: float
    """Unix time."""
    phase: Phase
    """`sft`, `training` or `evaluation`."""
    when: Literal["before", "during", "after"] | None = None
    """Of an evaluation: before, during or after training."""
    step: NonNegativeInt
    """Of the phase; of an evaluation, the step of training after which it was due."""
    version: NonNegativeInt
    """The newest policy that was published, or the one that was evaluated."""
    n_episodes: NonNegativeInt
    """Episodes of the run that have ended so far; of an evaluation, those it is the mean of."""
    metrics: dict[str, float]
    """Tag to value; docs/metrics.md has a line for each."""


class LogView(Frozen):
    """What one part said while it worked for a run."""

    offset: NonNegativeInt
    """Its place in the log; the next one's is higher, or the same."""
    logged: RunLogged
