"""Two evaluations compared task by task, in all and by category; see `warren_schemas.statistics.paired`.

Only tasks that both have played count, with the mean of their samples that did not fail on either side.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Literal

from warren.errors import ConfigurationError
from warren_schemas.base import Frozen
from warren_schemas.http import EvaluationReport, EvaluationSummary, TaskScores
from warren_schemas.statistics.paired import paired_difference

_MOST = 0.5
"""Of a task's samples, more than this share solve a task that is solved."""


class PairedTest(Frozen):
    """Of mean rewards by task, the other evaluation's minus the baseline's."""

    n_tasks: int
    """In both."""
    baseline_mean: float
    other_mean: float
    difference: float
    standard_error: float | None
    """None for a single task."""
    low: float | None
    high: float | None
    """Bounds of the 95 % interval: 1.96 standard errors on either side."""
    p_value: float
    """Two-sided, of the sign-flip permutation test."""
    method: Literal["exact", "random"]
    """Whether all assignments of signs were counted, or 20,000 random ones."""


class CategoryTest(Frozen):
    category: str | None
    test: PairedTest


class TaskDifference(Frozen):
    """A task that both have played."""

    task_id: str
    environment: str
    category: str | None = None
    baseline_mean: float
    other_mean: float
    baseline_solved: float
    """Share of the samples that solve it."""
    other_solved: float

    @property
    def change(self) -> Literal["solved", "lost", "same"]:
        """Whether most samples solve it by now, or no longer do."""
        before, after = self.baseline_solved > _MOST, self.other_solved > _MOST
        return "same" if before == after else "solved" if after else "lost"


class Comparison(Frozen):
    baseline: EvaluationSummary
    other: EvaluationSummary
    test: PairedTest
    categories: tuple[CategoryTest, ...] = ()
    """In alphabetical order; empty where no task has one."""
    tasks: tuple[TaskDifference, ...] = ()
    """Those that both have, the greatest loss first."""
    n_only_baseline: int = 0
    """Tasks that the other one has not, or of which all its samples failed."""
    n_only_other: int = 0
    n_incomplete_baseline: int = 0
    """Groups of a recording that are no part of it, for some of their episodes never ended there."""
    n_incomplete_other: int = 0


def compare(baseline: EvaluationReport, other: EvaluationReport) -> Comparison:
    """Raises `ConfigurationError` where they share no task."""
    before, after = _means(baseline.tasks), _means(other.tasks)
    both = [task for task in before if task in after]
    if not both:
        raise ConfigurationError(
            f"Evaluation {baseline.number} of {baseline.run} and {other.number} of {other.run} share no task",
            hint="Evaluate with the same environments and, where they make their own tasks, the same seed.",
        )
    category = {t.task: t.category for t in (*other.tasks, *baseline.tasks)}
    return Comparison(
        baseline=_summary(baseline),
        other=_summary(other),
        test=_test(both, before, after),
        categories=_categories(both, before, after, category),
        tasks=_differences(both, baseline, other),
        n_only_baseline=len(before) - len(both),
        n_only_other=len(after) - len(both),
        n_incomplete_baseline=baseline.n_incomplete_groups,
        n_incomplete_other=other.n_incomplete_groups,
    )


def _differences(
    both: Sequence[str], baseline: EvaluationReport, other: EvaluationReport
) -> tuple[TaskDifference, ...]:
    named = {t.task: t for t in (*baseline.tasks, *other.tasks)}
    before, after = _means(baseline.tasks), _means(other.tasks)
    solved_before, solved_after = _solved(baseline), _solved(other)
    found = [
        TaskDifference(
            task_id=named[task].task_id,
            environment=named[task].environment,
            category=named[task].category,
            baseline_mean=before[task],
            other_mean=after[task],
            baseline_solved=solved_before[task],
            other_solved=solved_after[task],
        )
        for task in both
    ]
    return tuple(sorted(found, key=lambda each: each.other_mean - each.baseline_mean))


def _solved(report: EvaluationReport) -> dict[str, float]:
    """Share of the samples that solve it, by task."""
    rewards = _rewards(report.tasks)
    return {
        task: fmean(reward >= report.solved_at for reward in of_task)
        for task, of_task in rewards.items()
    }


def _means(tasks: Sequence[TaskScores]) -> dict[str, float]:
    return {task: fmean(of_task) for task, of_task in _rewards(tasks).items()}


def _rewards(tasks: Sequence[TaskScores]) -> dict[str, list[float]]:
    """A task that a run plays in two of its environments is one task; one whose samples all failed is left out."""
    rewards: dict[str, list[float]] = defaultdict(list)
    for task in tasks:
        rewards[task.task] += task.rewards
    return {task: of_task for task, of_task in rewards.items() if of_task}


def _categories(
    both: Sequence[str],
    before: Mapping[str, float],
    after: Mapping[str, float],
    category: Mapping[str, str | None],
) -> tuple[CategoryTest, ...]:
    by_category: dict[str | None, list[str]] = defaultdict(list)
    for task in both:
        by_category[category[task]].append(task)
    if set(by_category) == {None}:
        return ()
    in_order = sorted(by_category, key=lambda name: (name is None, name or ""))
    return tuple(
        CategoryTest(category=name, test=_test(by_category[name], before, after))
        for name in in_order
    )


def _test(
    tasks: Sequence[str], before: Mapping[str, float], after: Mapping[str, float]
) -> PairedTest:
    found = paired_difference([after[task] - before[task] for task in tasks])
    return PairedTest(
        n_tasks=len(tasks),
        baseline_mean=fmean(before[task] for task in tasks),
        other_mean=fmean(after[task] for task in tasks),
        difference=found.mean,
        standard_error=found.standard_error,
        low=found.low,
        high=found.high,
        p_value=found.p_value,
        method=found.method,
    )


def _summary(report: EvaluationReport) -> EvaluationSummary:
    return EvaluationSummary.model_validate(
        {name: getattr(report, name) for name in EvaluationSummary.model_fields}
    )
