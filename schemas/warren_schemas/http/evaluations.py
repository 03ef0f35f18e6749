"""Bodies about the results of a run's evaluations."""

from enum import StrEnum
from typing import Literal

from warren_schemas.base import Frozen
from warren_schemas.config import NonNegativeInt, PositiveInt
from warren_schemas.ids import RunId

__all__ = [
    "CategoryScores",
    "EnvironmentScores",
    "EvaluationReport",
    "EvaluationState",
    "EvaluationSummary",
    "MetricMean",
    "PassAtK",
    "Scores",
    "TaskScores",
]


class EvaluationState(StrEnum):
    RUNNING = "running"
    COMPLETE = "complete"
    CUT_SHORT = "cut_short"
    """Its owner ended it with what there was."""
    ABANDONED = "abandoned"
    """Its run ended, or went on without it."""


class MetricMean(Frozen):
    mean: float
    n_episodes: NonNegativeInt
    """Those that report it."""


class PassAtK(Frozen):
    k: PositiveInt
    value: float
    """Mean over the tasks with at least `k` samples that did not fail."""
    standard_error: float | None = None
    """None for a single task."""
    n_tasks: NonNegativeInt


class Scores(Frozen):
    """What some episodes of an evaluation came to. A failure is never a reward: it is counted by its kind."""

    n_tasks: NonNegativeInt
    """Tasks with at least one episode that did not fail."""
    n_episodes: NonNegativeInt
    """Episodes that did not fail."""
    n_failed: NonNegativeInt
    """Episodes whose attempts all failed, or whose failure no other attempt would have helped."""
    failures: dict[str, NonNegativeInt]
    """The same by kind."""
    reward_mean: float | None = None
    """Over episodes; None where all failed."""
    reward_standard_error: float | None = None
    """Clustered by task, for samples of one task are not independent. None for a single task."""
    pass_at_k: tuple[PassAtK, ...] = ()
    """For each `k` up to the samples of a task."""
    metrics: dict[str, MetricMean]
    """Of the environment, each over the episodes that report it."""


class CategoryScores(Frozen):
    category: str | None
    """None: tasks whose environment names none, or that never began."""
    scores: Scores


class EnvironmentScores(Frozen):
    number: NonNegativeInt
    """Its place among the config's environments, counted from 0."""
    name: str
    scores: Scores
    categories: tuple[CategoryScores, ...] = ()
    """In alphabetical order; empty where no task has one."""


class TaskScores(Frozen):
    task: str
    """The same in every evaluation that plays this task, whatever the run, the policy and its settings."""
    task_id: str = ""
    """What its environment calls it, or else its split and its number."""
    environment: str
    category: str | None = None
    rewards: tuple[float, ...] = ()
    """Of the samples that did not fail."""
    n_failed: NonNegativeInt = 0


class EvaluationSummary(Frozen):
    run: RunId
    number: PositiveInt
    """1, 2, 3 and so on, in the order in which the run began them."""
    when: Literal["before", "during", "after"]
    step: NonNegativeInt
    """The step of training after which it was due."""
    version: NonNegativeInt
    """The policy version that was evaluated."""
    state: EvaluationState
    n_planned: NonNegativeInt
    """Episodes that it has when it is complete; of recorded ones, those that were read by now."""
    samples: PositiveInt
    """Episodes of each task; of recorded ones, the most that one group has."""
    of_recorded: bool = False
    """Whether it is of what other runs recorded; `step` and `version` are 0 then, whatever policies sampled it."""
    started_s: float
    """Unix time."""
    ended_s: float | None = None


class EvaluationReport(EvaluationSummary):
    """The results of one evaluation, of the episodes that have been counted by now."""

    solved_at: float
    """An episode solves its task if its reward is at least this."""
    n_incomplete_groups: NonNegativeInt = 0
    """Groups of a recording that are left out of everything here: some of their episodes never ended there. None of
    an evaluation that plays its episodes."""
    scores: Scores
    categories: tuple[CategoryScores, ...] = ()
    """Of all environments together, in alphabetical order; empty where no task has one."""
    environments: tuple[EnvironmentScores, ...] = ()
    tasks: tuple[TaskScores, ...] = ()
    """Ordered by environment and by where they stand in it."""


class EvaluationList(Frozen):
    evaluations: tuple[EvaluationSummary, ...]
    """Oldest first."""
