"""Evaluation: fresh episodes with one pinned policy version, always on the same tasks."""

from typing import Literal

from warren_gateway.coordinator.learning.environment_metrics import (
    add,
    environment_sums,
    environment_tags,
)
from warren_gateway.coordinator.progress import EvaluationProgress
from warren_gateway.coordinator.rollouts import episodes
from warren_gateway.coordinator.rollouts.groups import Group
from warren_gateway.coordinator.state import Memory
from warren_schemas.config import EvaluationConfig
from warren_schemas.episode import EpisodePurpose
from warren_schemas.events import EvaluationCompleted, WarningRaised

_WHEN = {
    "before": "before training",
    "during": "during training",
    "after": "after training",
}


def start(
    memory: Memory, config: EvaluationConfig, when: Literal["before", "during", "after"]
) -> None:
    episodes.rewind_tasks(memory, EpisodePurpose.EVALUATE)
    memory.progress.evaluation = EvaluationProgress(
        when=when,
        step=memory.progress.n_published_steps
        if when == "during"
        else memory.progress.n_trained_steps,
        version=memory.policy_version,
        policy_url=memory.policy_url,
        n_episodes=config.episodes,
        started_s=memory.now_s,
    )


def start_if_due(memory: Memory) -> None:
    """Evaluate every so many steps, if the run says so and no evaluation is under way."""
    config, step = memory.config.evaluation, memory.progress.n_published_steps
    if config is None or config.every_steps is None or memory.progress.evaluation is not None:
        return
    due = step > 0 and step % config.every_steps == 0 and step < memory.stage.n_steps
    if due and memory.progress.last_evaluated_step != step:
        memory.progress.last_evaluated_step = step
        start(memory, config, "during")


def advance(memory: Memory) -> None:
    """Admit what may be in the air."""
    evaluation = memory.progress.evaluation
    if evaluation is None:
        return
    left = evaluation.n_episodes - evaluation.n_admitted
    if left > 0:
        evaluation.n_admitted += episodes.admit(memory, EpisodePurpose.EVALUATE, left, n_members=1)


def absorb(memory: Memory, group: Group) -> None:
    """Count a complete evaluation group; report when it was the last."""
    evaluation = memory.progress.evaluation
    episodes.close(memory, group, "evaluated")
    if evaluation is None:
        return
    outcomes = [outcome for _, outcome in group.completed]
    evaluation.n_ended += len(outcomes)
    evaluation.n_failed += len(group.failures)
    evaluation.reward_sum += sum(outcome.reward for outcome in outcomes)
    add(evaluation.environment_totals, environment_sums([group]))
    if not evaluation.is_done:
        return
    memory.progress.evaluation = None
    if evaluation.n_ended:
        _report(memory, evaluation)
    else:
        _report_nothing(memory, evaluation)


def _report_nothing(memory: Memory, evaluation: EvaluationProgress) -> None:
    message = (
        f"no episode of the evaluation {_WHEN[evaluation.when]} ended without failing: all"
        f" {evaluation.n_failed} failed, and it has no reward"
    )
    memory.emit(WarningRaised(message=message))


def _report(memory: Memory, evaluation: EvaluationProgress) -> None:
    reward = evaluation.reward_sum / evaluation.n_ended
    if evaluation.when == "before":
        memory.progress.reward_before = reward
    elif evaluation.when == "after":
        memory.progress.reward_after = reward
    memory.emit(
        EvaluationCompleted(
            when=evaluation.when,
            step=evaluation.step,
            version=evaluation.version,
            n_episodes=evaluation.n_ended,
            reward_mean=reward,
            metrics={
                **environment_tags(memory, evaluation.environment_totals),
                "episodes": float(evaluation.n_ended),
                "failed": float(evaluation.n_failed),
                "duration_s": memory.now_s - evaluation.started_s,
            },
        )
    )
