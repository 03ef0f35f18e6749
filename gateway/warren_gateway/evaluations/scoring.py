"""From samples of tasks to scores, in all, by environment and by category."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from math import fsum

from warren_gateway.evaluations.samples import Sample
from warren_schemas.config import TrainConfig
from warren_schemas.http import (
    CategoryScores,
    EnvironmentScores,
    MetricMean,
    PassAtK,
    Scores,
    TaskScores,
)
from warren_schemas.statistics.clustered import clustered_mean
from warren_schemas.statistics.pass_at_k import pass_at_k

Rewards = Mapping[str, Sequence[float]]
"""By task, those of its samples that did not fail."""


def scores(samples: Sequence[Sample], most_samples: int, solved_at: float) -> Scores:
    """pass@k for each `k` up to `most_samples`."""
    rewards = _by_task(samples)
    estimate = clustered_mean(rewards.values())
    failures = Counter(s.failure for s in samples if s.failure is not None)
    ks = range(1, most_samples + 1)
    passes = (_pass_at(rewards, k, solved_at) for k in ks)
    return Scores(
        n_tasks=len(rewards),
        n_episodes=sum(map(len, rewards.values())),
        n_failed=failures.total(),
        failures=dict(sorted(failures.items())),
        reward_mean=estimate and estimate.mean,
        reward_standard_error=estimate and estimate.standard_error,
        pass_at_k=tuple(found for found in passes if found is not None),
        metrics=_metrics(samples),
    )


def categories(
    samples: Sequence[Sample], most_samples: int, solved_at: float
) -> tuple[CategoryScores, ...]:
    """Empty where no task has one."""
    by_category: dict[str | None, list[Sample]] = defaultdict(list)
    for sample in samples:
        by_category[sample.category].append(sample)
    if set(by_category) <= {None}:
        return ()
    in_order = sorted(by_category, key=lambda name: (name is None, name or ""))
    return tuple(
        CategoryScores(category=name, scores=scores(by_category[name], most_samples, solved_at))
        for name in in_order
    )


def environments(
    samples: Iterable[Sample], config: TrainConfig, most_samples: int, solved_at: float
) -> tuple[EnvironmentScores, ...]:
    """Those of the config that were played."""
    by_number: dict[int, list[Sample]] = defaultdict(list)
    for sample in samples:
        by_number[sample.environment].append(sample)
    return tuple(
        EnvironmentScores(
            number=number,
            name=config.environments[number].name,
            scores=scores(by_number[number], most_samples, solved_at),
            categories=categories(by_number[number], most_samples, solved_at),
        )
        for number in sorted(by_number)
    )


def tasks(samples: Sequence[Sample], config: TrainConfig) -> tuple[TaskScores, ...]:
    """In the order in which they first come in each environment."""
    place: dict[tuple[int, str], int] = {}
    for sample in samples:
        place.setdefault((sample.environment, sample.task), len(place))
    in_order = sorted(samples, key=lambda s: (s.environment, place[s.environment, s.task]))
    return tuple(
        _task(list(of_task), config)
        for _, of_task in groupby(in_order, key=lambda s: (s.environment, s.task))
    )


def _task(samples: Sequence[Sample], config: TrainConfig) -> TaskScores:
    first = samples[0]
    return TaskScores(
        task=first.task,
        task_id=first.task_id,
        environment=config.environments[first.environment].name,
        category=next((s.category for s in samples if s.category is not None), None),
        rewards=tuple(s.reward for s in samples if s.reward is not None),
        n_failed=sum(s.failure is not None for s in samples),
    )


def _by_task(samples: Iterable[Sample]) -> Rewards:
    rewards: dict[str, list[float]] = defaultdict(list)
    for sample in samples:
        if sample.reward is not None:
            rewards[sample.task].append(sample.reward)
    return rewards


def _pass_at(rewards: Rewards, k: int, solved_at: float) -> PassAtK | None:
    """Over the tasks with samples enough; None where none has."""
    passes = [
        [pass_at_k(len(of_task), sum(reward >= solved_at for reward in of_task), k)]
        for of_task in rewards.values()
        if len(of_task) >= k
    ]
    estimate = clustered_mean(passes)
    if estimate is None:
        return None
    mean, error = estimate
    return PassAtK(k=k, value=mean, standard_error=error, n_tasks=len(passes))


def _metrics(samples: Iterable[Sample]) -> dict[str, MetricMean]:
    values: dict[str, list[float]] = defaultdict(list)
    for sample in samples:
        for name, value in sample.metrics.items():
            values[name].append(value)
    return {
        name: MetricMean(mean=fsum(values[name]) / len(values[name]), n_episodes=len(values[name]))
        for name in sorted(values)
    }
