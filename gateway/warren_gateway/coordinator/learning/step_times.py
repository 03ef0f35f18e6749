"""How long a step took, and what its time went to.

Its parts follow each other and add up to `time/step_s`: waiting for a batch, the update, publishing the
policy, measuring its loss over rows that are held out, writing a checkpoint. The trainer's own time is what trainers say; what is left until the update
is there is waiting for it. What is told here changes no decision.
"""

from warren_gateway.coordinator.state.coordinator import CoordinatorState
from warren_gateway.coordinator.state.learning import PendingStep
from warren_schemas.training import OpDone


def note(
    pending: PendingStep, outcome: OpDone, now_s: float, *, is_evaluation: bool = False
) -> None:
    """An op of the step was answered."""
    if outcome.policy is not None:
        pending.policy_s = now_s
    elif is_evaluation:
        pending.evaluated_s = now_s
    elif outcome.checkpoint_url is None:
        pending.training_s += outcome.duration_s
    if "grad_norm" in outcome.metrics:
        pending.updated_s = now_s


def start_clock(state: CoordinatorState) -> None:
    """A stage begins: its first step is counted from here."""
    state.learning.batches.rate_mark = (
        state.now_s,
        state.rollouts.n_episodes,
        state.rollouts.n_tokens,
    )


def times(state: CoordinatorState, pending: PendingStep) -> dict[str, float]:
    """The times of a step that is published now; nothing where the step before is not known."""
    before_s, end_s = state.learning.batches.rate_mark[0], state.now_s
    if before_s == 0.0:
        return {}
    begun_s = max(before_s, pending.batched_s)
    updated_s = max(begun_s, pending.updated_s)
    policy_s = max(updated_s, pending.policy_s)
    evaluated_s = max(policy_s, pending.evaluated_s)
    parts = {
        "time/step_s": end_s - before_s,
        "time/wait_s": begun_s - before_s,
        "time/update_s": updated_s - begun_s,
        "time/publish_s": policy_s - updated_s,
    }
    if pending.updated_s:
        since_s = pending.updated_s - pending.batched_s
        parts["time/training_s"] = pending.training_s
        parts["time/trainer_wait_s"] = max(0.0, since_s - pending.training_s)
    if pending.first_evaluation_op:
        parts["time/evaluation_s"] = evaluated_s - policy_s
    return parts | ({"time/checkpoint_s": end_s - evaluated_s} if end_s > evaluated_s else {})
