"""The outcome of a completed run: a value for programs and a sentence for people.

Invariant: a run that took steps and learned nothing from rewards is never told as one that was trained; what was
before a resumption counts for the run that did it.
"""

from warren_gateway.coordinator.learning import zero_variance
from warren_gateway.coordinator.learning.training import is_goal_reached
from warren_gateway.coordinator.state.coordinator import CoordinatorState
from warren_gateway.stop_request import StopRequest
from warren_schemas.events import RunOutcome


def conclude(state: CoordinatorState) -> tuple[RunOutcome, str | None]:
    """The outcome, and what there is to remark."""
    n_trained_steps = state.learning.steps.n_trained
    if state.is_clients:
        is_trained = state.client.version > 0
        return RunOutcome.TRAINED if is_trained else RunOutcome.NOTHING_TO_DO, None
    if state.config.is_evaluation:
        return RunOutcome.EVALUATED, _evaluated(state)
    if state.config.limits.steps == 0 and state.learning.policy.version_issued:
        return RunOutcome.TRAINED, None
    if state.stopping is StopRequest.FINISH and n_trained_steps == state.learning.steps.n_at_start:
        return RunOutcome.NOTHING_LEARNED, "its owner ended it before its first step"
    if n_trained_steps == state.learning.steps.n_at_start:
        return RunOutcome.NOTHING_TO_DO, _nothing_to_do(state)
    if not state.learning.batches.has_learned:
        return RunOutcome.NOTHING_LEARNED, _nothing_learned(state)
    return RunOutcome.TRAINED, _ended_early(state)


def _evaluated(state: CoordinatorState) -> str | None:
    planned, n_ended = state.config.evaluation, state.rollouts.n_episodes
    if state.stopping is StopRequest.FINISH and state.config.evaluates_recorded:
        return f"its owner ended it with {n_ended} episodes of the recording"
    if state.stopping is StopRequest.FINISH and planned is not None and n_ended < planned.episodes:
        return f"its owner ended it with {n_ended} of {planned.episodes} episodes"
    return None if state.rollouts.reward_after is not None else "no episode ended without failing"


def _nothing_to_do(state: CoordinatorState) -> str:
    step, limits = state.learning.steps.n_at_start, state.config.limits
    if is_goal_reached(limits, state.learning):
        return (
            f"the steps before the checkpoint at step {step} have reached limits.stop_at_reward"
            f" ({limits.stop_at_reward:g})"
        )
    return (
        f"the checkpoint has {step} steps behind it, and limits.steps ({limits.steps})"
        f" is the total; to go on: --set limits.steps={step + limits.steps}"
    )


def _nothing_learned(state: CoordinatorState) -> str:
    n_steps = state.learning.steps.n_trained - state.learning.steps.n_at_start
    steps = "the only step" if n_steps == 1 else f"{n_steps} steps"
    most = state.config.limits.stop_after_zero_variance_steps
    is_cut = (
        zero_variance.is_enough(state.config.limits, state.learning)
        and state.learning.steps.n_trained < state.config.limits.steps
    )
    ended = f" and limits.stop_after_zero_variance_steps ({most}) ended the run" if is_cut else ""
    return (
        f"all groups had zero variance in {steps}, so nothing was learned from rewards{ended}. In the last one"
        f" {state.learning.batches.zero_variance_facts}. {zero_variance.advice(state)}"
    )


def _ended_early(state: CoordinatorState) -> str | None:
    limits = state.config.limits
    where = f"step {state.learning.steps.n_trained} of {limits.steps} was the last"
    if state.learning.steps.n_trained >= limits.steps:
        return None
    if is_goal_reached(limits, state.learning):
        return f"{where}: the reward has reached limits.stop_at_reward ({limits.stop_at_reward:g})"
    if zero_variance.is_enough(state.config.limits, state.learning):
        return (
            f"{where}: {state.learning.batches.n_zero_variance} steps in a row learned nothing, as all their"
            f" groups had zero variance. In the last one {state.learning.batches.zero_variance_facts}."
            f" {zero_variance.advice(state)}"
        )
    if state.stopping is StopRequest.FINISH:
        return f"{where}: its owner ended it early"
    return f"{where}: the recording holds no more"
