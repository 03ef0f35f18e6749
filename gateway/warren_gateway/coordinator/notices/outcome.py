"""What came of a run that completed, in a word for programs and a sentence for people.

Invariant: a run that took steps and made no update is never told as one that was trained; what was
before a resumption counts for the run that did it.
"""

from warren_gateway.coordinator.learning.training import is_goal_reached
from warren_gateway.coordinator.notices import zero_variance
from warren_gateway.coordinator.state import Memory
from warren_schemas.events import RunOutcome


def conclude(memory: Memory) -> tuple[RunOutcome, str | None]:
    """The outcome, and what there is to remark."""
    progress = memory.progress
    if progress.n_trained_steps == progress.n_steps_at_start:
        return RunOutcome.NOTHING_TO_DO, _nothing_to_do(memory)
    if progress.n_updates == progress.n_updates_at_start:
        return RunOutcome.NOTHING_LEARNED, _nothing_learned(memory)
    return RunOutcome.TRAINED, _ended_early(memory)


def _nothing_to_do(memory: Memory) -> str:
    step, limits = memory.progress.n_steps_at_start, memory.config.limits
    if is_goal_reached(memory):
        return (
            f"the steps before the checkpoint at step {step} have reached limits.stop_at_reward"
            f" ({limits.stop_at_reward:g})"
        )
    return (
        f"the checkpoint has {step} steps behind it, and limits.steps ({limits.steps})"
        f" is the total; to go on: --set limits.steps={step + limits.steps}"
    )


def _nothing_learned(memory: Memory) -> str:
    progress = memory.progress
    n_steps = progress.n_trained_steps - progress.n_steps_at_start
    steps = "the only step" if n_steps == 1 else f"{n_steps} steps"
    most = memory.config.limits.stop_after_zero_variance_steps
    is_cut = (
        zero_variance.is_enough(memory) and progress.n_trained_steps < memory.config.limits.steps
    )
    ended = f" and limits.stop_after_zero_variance_steps ({most}) ended the run" if is_cut else ""
    return (
        f"no group told its episodes apart in {steps}, so no update was made{ended}. In the last one"
        f" {progress.zero_variance_facts}. {zero_variance.advice(memory)}"
    )


def _ended_early(memory: Memory) -> str | None:
    progress, limits = memory.progress, memory.config.limits
    where = f"step {progress.n_trained_steps} of {limits.steps} was the last"
    if progress.n_trained_steps >= limits.steps:
        return None
    if is_goal_reached(memory):
        return f"{where}: the reward has reached limits.stop_at_reward ({limits.stop_at_reward:g})"
    if zero_variance.is_enough(memory):
        return (
            f"{where}: {progress.n_zero_variance_steps} steps in a row made no update, for no group"
            f" told its episodes apart. In the last one {progress.zero_variance_facts}."
            f" {zero_variance.advice(memory)}"
        )
    return f"{where}: the recording holds no more"
