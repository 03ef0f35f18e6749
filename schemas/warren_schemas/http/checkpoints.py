"""Bodies about a run's checkpoints and published policies."""

from warren_schemas.base import Frozen
from warren_schemas.config import NonNegativeInt

__all__ = [
    "CheckpointList",
    "CheckpointMetricsList",
    "CheckpointMetricsView",
    "CheckpointView",
    "EvaluationView",
]


class CheckpointView(Frozen):
    """A checkpoint that is kept."""

    name: str
    """What `resume_from.checkpoint` takes: `step-` and its step, `sft-` and the supervised step."""
    version: NonNegativeInt
    """Policy version: the model's optimizer steps, supervised ones among them."""
    step: NonNegativeInt
    """The run's step; 0 in SFT."""
    reward: float | None = None
    """Mean reward of up to 16 steps before it."""
    size_bytes: NonNegativeInt
    url: str
    created_s: float


class PolicyView(Frozen):
    """A policy that samplers can load; in force from its step on until the next one's."""

    step: NonNegativeInt
    """The step that made it; 0 what the run began with, or SFT made."""
    version: NonNegativeInt
    """Policy version: the model's optimizer steps, supervised ones among them."""
    url: str


class CheckpointList(Frozen):
    checkpoints: tuple[CheckpointView, ...]
    """Oldest first."""
    step: NonNegativeInt = 0
    """The run's."""
    policies: tuple[PolicyView, ...] = ()
    """The newest that are kept, oldest first. A step without an update has the one before."""

    def policy_after(self, step: int) -> PolicyView | None:
        """The policy in force after this step; None where it is not kept, or the run is not there yet."""
        older = [policy for policy in self.policies if policy.step <= step <= self.step]
        return older[-1] if older else None


class EvaluationView(Frozen):
    """What an evaluation of a run came to."""

    step: NonNegativeInt
    """The step of training after which it was due."""
    version: NonNegativeInt
    """The policy version that was evaluated."""
    n_episodes: NonNegativeInt
    reward_mean: float


class CheckpointMetricsView(Frozen):
    """What the run reported around a checkpoint that is kept."""

    name: str
    version: NonNegativeInt
    """Policy version: the model's optimizer steps, supervised ones among them."""
    step: NonNegativeInt
    """The run's step; 0 in SFT."""
    reward: float | None = None
    """Mean reward of up to 16 steps before it."""
    evaluation_before: EvaluationView | None = None
    """The newest evaluation of its policy version or an older one."""
    evaluation_after: EvaluationView | None = None
    """The first evaluation of its policy version or a newer one."""
    metrics: dict[str, float]
    """What its own step reported, by tag; empty where that step reported nothing."""


class CheckpointMetricsList(Frozen):
    checkpoints: tuple[CheckpointMetricsView, ...]
    """Oldest first."""
