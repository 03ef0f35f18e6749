"""Evaluation: fresh episodes with one pinned policy version, always on the same tasks; or what other runs recorded.

Invariant: an evaluation that a published step makes due happens once, however many fall due while
another one is under way: they wait, in the order of steps, and are stored with every change. Each is of
the version that its step led to. Trainers keep the newest versions only; where that one is gone, or
will be once the ops in the log are applied, the next one that stays takes its place, and the report says so.
Those that fall to the same version are answered by the same episodes: others would tell nothing new.
The version under evaluation is kept for as long as that takes.

Of what is recorded, what is planned is what was read: groups are counted in its order, and nobody is asked for any.
"""

from typing import Literal

from warren_gateway.coordinator.rollouts import episodes, tasks
from warren_gateway.coordinator.rollouts.by_environment import (
    add,
    environment_sums,
    environment_tags,
)
from warren_gateway.coordinator.state.coordinator import CoordinatorState
from warren_gateway.coordinator.state.groups import Group
from warren_gateway.coordinator.state.learning import LearningState
from warren_gateway.coordinator.state.rollouts import (
    DueEvaluation,
    EvaluationProgress,
    RolloutState,
)
from warren_schemas.config import EvaluationConfig
from warren_schemas.episode import EpisodePurpose
from warren_schemas.events import EvaluationCompleted, WarningRaised
from warren_schemas.http import EvaluationState
from warren_schemas.training import KEEP_POLICIES

_WHEN = {
    "before": "before training",
    "during": "during training",
    "after": "after training",
}


def start(
    state: CoordinatorState, config: EvaluationConfig, when: Literal["before", "after"]
) -> None:
    """Evaluate the newest policy: nothing is trained beside it."""
    step, version = state.learning.steps.n_trained, state.learning.policy.version
    due = [DueEvaluation(step=step, version=version)]
    _start(state, config, when, due, (version, state.learning.policy.url))


def note_published(state: CoordinatorState, step: int, version: int) -> None:
    """A step of training has led to this version. What is due at the last one is the evaluation after
    training, if there will be one."""
    config = state.config.evaluation
    if config is None or config.every_steps is None or step % config.every_steps:
        return
    if step < state.stage.n_steps or not config.after:
        state.rollouts.due_evaluations.append(DueEvaluation(step=step, version=version))


def start_next(state: CoordinatorState) -> None:
    """Begin with what has been due for longest, unless an evaluation is under way."""
    config, rollouts, learning = state.config.evaluation, state.rollouts, state.learning
    if config is None or rollouts.evaluation is not None or not rollouts.due_evaluations:
        return
    policy = _policy_for(learning, rollouts.due_evaluations[0])
    due = [d for d in rollouts.due_evaluations if _policy_for(learning, d) == policy]
    del rollouts.due_evaluations[: len(due)]
    _start(state, config, "during", due, policy)


def drop(state: CoordinatorState) -> None:
    """None is wanted any more, of what is under way or due; its groups are closed by who calls."""
    if state.rollouts.evaluation is not None:
        _end(state, state.rollouts.evaluation, EvaluationState.ABANDONED)
    state.rollouts.due_evaluations.clear()


def cut_short(state: CoordinatorState) -> None:
    """Report what has ended by now, and end it: samples too whose task has others in flight."""
    evaluation = state.rollouts.evaluation
    if evaluation is None:
        return
    if state.config.evaluates_recorded:
        return _count_recorded(state, evaluation, EvaluationState.CUT_SHORT)
    for group in list(state.rollouts.groups.values()):
        if group.purpose is EpisodePurpose.EVALUATE and (group.ended or group.failures):
            _count(state, evaluation, group)
    is_done = evaluation.is_done
    how = EvaluationState.COMPLETE if is_done else EvaluationState.CUT_SHORT
    _report(state, evaluation, how)


def versions_in_use(rollouts: RolloutState) -> tuple[int, ...]:
    """What is evaluated."""
    return () if rollouts.evaluation is None else (rollouts.evaluation.version,)


def _start(
    state: CoordinatorState,
    config: EvaluationConfig,
    when: Literal["before", "during", "after"],
    due: list[DueEvaluation],
    policy: tuple[int, str | None],
) -> None:
    is_recorded = state.config.evaluates_recorded
    tasks.rewind(state.rollouts, EpisodePurpose.EVALUATE, range(len(state.config.environments)))
    state.rollouts.n_evaluations += 1
    evaluation = state.rollouts.evaluation = EvaluationProgress(
        number=state.rollouts.n_evaluations,
        when=when,
        due=due,
        version=policy[0],
        policy_url=policy[1],
        n_episodes=0 if is_recorded else config.episodes,
        started_s=state.now_s,
    )
    state.change.evaluations_begun.append(
        {
            "number": evaluation.number,
            "occasion": when,
            "step": evaluation.step,
            "version": evaluation.version,
            "n_planned": evaluation.n_episodes,
            "samples": config.samples,
            "state": EvaluationState.RUNNING.value,
            "started_s": state.now_s,
        }
    )


def _end(state: CoordinatorState, evaluation: EvaluationProgress, how: EvaluationState) -> None:
    state.rollouts.evaluation = None
    ended = {"state": how.value, "ended_s": state.now_s}
    state.change.evaluations_changed[evaluation.number] |= ended


def _policy_for(learning: LearningState, due: DueEvaluation) -> tuple[int, str | None]:
    """The version that it is due for, or the next one that stays; with its address."""
    if due.version == 0 and not learning.ops.start:
        return 0, None  # the base model itself
    newer = (version for version in _staying(learning) if version >= due.version)
    version = next(newer, learning.policy.version)
    if version == learning.policy.version:
        return version, learning.policy.url
    folder, _, _ = (learning.policy.url or "").rpartition("/")
    return version, f"{folder}/v{version}"  # as `runs.checkpoints.policies_of`


def _staying(learning: LearningState) -> list[int]:
    """Published versions that are there still once every op in the log is applied, oldest first."""
    versions = [version for _, version in learning.policy.published]
    n_coming = learning.policy.version_issued - versions[-1] if versions else 0
    return versions[max(0, len(versions) + n_coming - KEEP_POLICIES) :]


def advance(state: CoordinatorState) -> None:
    """Admit what may be in flight."""
    evaluation, config = state.rollouts.evaluation, state.config.evaluation
    if evaluation is None or config is None:
        return
    if state.config.evaluates_recorded:
        return _count_recorded(state, evaluation)
    left = (evaluation.n_episodes - evaluation.n_admitted) // config.samples
    if left > 0:
        n_tasks = episodes.admit(state, EpisodePurpose.EVALUATE, left, n_members=config.samples)
        evaluation.n_admitted += n_tasks * config.samples


def absorb(state: CoordinatorState, group: Group) -> None:
    """Count a complete evaluation group; report when it was the last."""
    evaluation = state.rollouts.evaluation
    if evaluation is None:
        return episodes.close(state, group, "evaluated")
    _count(state, evaluation, group)
    if evaluation.is_done:
        _report(state, evaluation, EvaluationState.COMPLETE)


def _count_recorded(
    state: CoordinatorState, evaluation: EvaluationProgress, how: EvaluationState | None = None
) -> None:
    """All that were read; it is complete once nothing more comes, or ends in another way."""
    ready, state.rollouts.ready = state.rollouts.ready, []
    for group in ready:
        state.source.close(state, group, "evaluated")
        _add(evaluation, group)
        evaluation.n_episodes += group.n_members
        evaluation.samples = max(evaluation.samples, group.n_members)
    if ready:
        counted = {"n_planned": evaluation.n_episodes, "samples": evaluation.samples}
        state.change.evaluations_changed[evaluation.number] |= counted
    if state.source.is_dry():
        _report(state, evaluation, EvaluationState.COMPLETE)
    elif how is not None:
        _report(state, evaluation, how)


def _count(state: CoordinatorState, evaluation: EvaluationProgress, group: Group) -> None:
    """All that have ended of it."""
    episodes.close(state, group, "evaluated")
    _add(evaluation, group)


def _add(evaluation: EvaluationProgress, group: Group) -> None:
    outcomes = [outcome for _, outcome in group.completed]
    evaluation.n_ended += len(outcomes)
    evaluation.n_failed += len(group.failures)
    evaluation.reward_sum += sum(outcome.reward for outcome in outcomes)
    add(evaluation.environment_totals, environment_sums([group]))


def _report(state: CoordinatorState, evaluation: EvaluationProgress, how: EvaluationState) -> None:
    _end(state, evaluation, how)
    if evaluation.n_ended:
        _report_rewards(state, evaluation)
    elif evaluation.n_failed:
        _report_nothing(state, evaluation)


def _report_nothing(state: CoordinatorState, evaluation: EvaluationProgress) -> None:
    at = f" (step {evaluation.step})" if evaluation.when == "during" else ""
    message = (
        f"no episode of the evaluation {_WHEN[evaluation.when]}{at} ended without failing: all"
        f" {evaluation.n_failed} failed, and it has no reward"
    )
    state.emit(WarningRaised(message=message))


def _report_rewards(state: CoordinatorState, evaluation: EvaluationProgress) -> None:
    reward = evaluation.reward_sum / evaluation.n_ended
    if evaluation.when == "before":
        state.rollouts.reward_before = reward
    elif evaluation.when == "after":
        state.rollouts.reward_after = reward
    for due in evaluation.due:
        state.emit(_completed(state, evaluation, due, reward))


def _completed(
    state: CoordinatorState, evaluation: EvaluationProgress, due: DueEvaluation, reward: float
) -> EvaluationCompleted:
    n_late = evaluation.version - due.version
    return EvaluationCompleted(
        when=evaluation.when,
        step=due.step,
        version=evaluation.version,
        due_version=due.version if n_late else None,
        n_episodes=evaluation.n_ended,
        reward_mean=reward,
        metrics={
            **environment_tags(state.config.environments, evaluation.environment_totals),
            "episodes": float(evaluation.n_ended),
            "failed": float(evaluation.n_failed),
            "duration_s": state.now_s - evaluation.started_s,
            **({} if state.config.evaluates_recorded else _of_policy(state, evaluation, n_late)),
        },
    )


def _of_policy(
    state: CoordinatorState, evaluation: EvaluationProgress, n_late: int
) -> dict[str, float]:
    return {
        "version": float(evaluation.version),
        "versions_late": float(n_late),
        "waiting": float(len(state.rollouts.due_evaluations)),
    }
