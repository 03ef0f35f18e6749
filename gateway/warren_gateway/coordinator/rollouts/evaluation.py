"""Evaluation: fresh episodes with one pinned policy version, always on the same tasks."""

from typing import Literal

from warren_gateway.coordinator.rollouts import episodes, tasks
from warren_gateway.coordinator.rollouts.by_environment import (
    add,
    environment_sums,
    environment_tags,
)
from warren_gateway.coordinator.state.coordinator import CoordinatorState
from warren_gateway.coordinator.state.groups import Group
from warren_gateway.coordinator.state.rollouts import EvaluationProgress
from warren_schemas.config import EvaluationConfig
from warren_schemas.episode import EpisodePurpose
from warren_schemas.events import EvaluationCompleted, WarningRaised

_WHEN = {
    "before": "before training",
    "during": "during training",
    "after": "after training",
}


def start(
    state: CoordinatorState, config: EvaluationConfig, when: Literal["before", "during", "after"]
) -> None:
    tasks.rewind(state.rollouts, EpisodePurpose.EVALUATE, len(state.config.environments))
    state.rollouts.evaluation = EvaluationProgress(
        when=when,
        step=state.learning.n_published_steps
        if when == "during"
        else state.learning.n_trained_steps,
        version=state.learning.policy_version,
        policy_url=state.learning.policy_url,
        n_episodes=config.episodes,
        started_s=state.now_s,
    )


def start_if_due(state: CoordinatorState) -> None:
    """Evaluate every so many steps, if the run says so and no evaluation is under way."""
    config, step = state.config.evaluation, state.learning.n_published_steps
    if config is None or config.every_steps is None or state.rollouts.evaluation is not None:
        return
    due = step > 0 and step % config.every_steps == 0 and step < state.stage.n_steps
    if due and state.rollouts.last_evaluated_step != step:
        state.rollouts.last_evaluated_step = step
        start(state, config, "during")


def advance(state: CoordinatorState) -> None:
    """Admit what may be in flight."""
    evaluation = state.rollouts.evaluation
    if evaluation is None:
        return
    left = evaluation.n_episodes - evaluation.n_admitted
    if left > 0:
        evaluation.n_admitted += episodes.admit(state, EpisodePurpose.EVALUATE, left, n_members=1)


def absorb(state: CoordinatorState, group: Group) -> None:
    """Count a complete evaluation group; report when it was the last."""
    evaluation = state.rollouts.evaluation
    episodes.close(state, group, "evaluated")
    if evaluation is None:
        return
    outcomes = [outcome for _, outcome in group.completed]
    evaluation.n_ended += len(outcomes)
    evaluation.n_failed += len(group.failures)
    evaluation.reward_sum += sum(outcome.reward for outcome in outcomes)
    add(evaluation.environment_totals, environment_sums([group]))
    if not evaluation.is_done:
        return
    state.rollouts.evaluation = None
    if evaluation.n_ended:
        _report(state, evaluation)
    else:
        _report_nothing(state, evaluation)


def _report_nothing(state: CoordinatorState, evaluation: EvaluationProgress) -> None:
    message = (
        f"no episode of the evaluation {_WHEN[evaluation.when]} ended without failing: all"
        f" {evaluation.n_failed} failed, and it has no reward"
    )
    state.emit(WarningRaised(message=message))


def _report(state: CoordinatorState, evaluation: EvaluationProgress) -> None:
    reward = evaluation.reward_sum / evaluation.n_ended
    if evaluation.when == "before":
        state.rollouts.reward_before = reward
    elif evaluation.when == "after":
        state.rollouts.reward_after = reward
    state.emit(
        EvaluationCompleted(
            when=evaluation.when,
            step=evaluation.step,
            version=evaluation.version,
            n_episodes=evaluation.n_ended,
            reward_mean=reward,
            metrics={
                **environment_tags(state.config.environments, evaluation.environment_totals),
                "episodes": float(evaluation.n_ended),
                "failed": float(evaluation.n_failed),
                "duration_s": state.now_s - evaluation.started_s,
            },
        )
    )
