"""The decisions of a coordinator: what to do about what has come in.

Pure: everything a decision does is in `memory.change`. Each stage of the plan has an `advance`,
which may be called at any time and does what is possible now.
"""

from collections.abc import Sequence

from warren_gateway.coordinator import ending, resuming, trainer_lease, waiting
from warren_gateway.coordinator.learning import (
    checkpointing,
    op_log,
    sft,
    step_times,
    steps,
    training,
)
from warren_gateway.coordinator.rollouts import episodes, evaluation, failure_limits, group_policy
from warren_gateway.coordinator.rollouts.groups import Group
from warren_gateway.coordinator.rollouts.source import Recorded
from warren_gateway.coordinator.state import Memory
from warren_gateway.coordinator.waiting import Alive
from warren_schemas.control import WorkerRole
from warren_schemas.episode import EpisodeEnded, EpisodePurpose
from warren_schemas.events import Phase, RunState, StateChanged
from warren_schemas.training import KeepReference, OpDone, OpFailed, OpResult


def absorb_ending(memory: Memory, item: EpisodeEnded, offset: int) -> None:
    """An episode has ended."""
    if memory.is_over:
        return
    group = episodes.absorb(memory, item, offset)
    if group is not None:
        _complete(memory, group)


def absorb_recorded(memory: Memory, items: Sequence[EpisodeEnded], offset: int) -> None:
    """One message of the recording that is replayed was read."""
    if not memory.is_over and isinstance(memory.source, Recorded):
        memory.source.read(memory, items, offset, group_policy.is_usable)


def absorb_answer(memory: Memory, result: OpResult) -> None:
    """The trainer has answered an op."""
    if memory.is_over or result.epoch != memory.lease.epoch:
        return
    if result.number == 0:
        return _absorb_opening(memory, result)
    for answer in op_log.take_answer(memory, result):
        steps.note_answer(memory, answer)
        checkpointing.note_saved(memory, answer)
        if isinstance(answer.outcome, OpFailed):
            ending.end(
                memory, RunState.FAILED, f"training op {answer.number}: {answer.outcome.reason}"
            )
            return


def decide(memory: Memory, alive: Alive) -> None:
    """Do what can be done now."""
    memory.n_started_now = 0
    if memory.is_over:
        return
    if memory.is_cancel_requested:
        return ending.end(memory, RunState.CANCELLED, "cancelled by its owner")
    if trainer_lease.is_hopeless(memory):
        return ending.end(memory, RunState.FAILED, _hopeless_reason(memory))
    reason = failure_limits.reason_to_end(memory) or memory.source.failure(memory)
    if reason is not None:
        return ending.end(memory, RunState.FAILED, reason)
    _expire(memory)
    if not memory.is_over:
        waiting.report(memory, alive)
    while not memory.is_over:
        has_moved = _advance(memory)
        if not steps.settle(memory) and not has_moved:
            break


def wants_trainer(memory: Memory, alive: Alive) -> bool:
    """Whether somebody must be given the lease of the model.

    While the broker is away nobody can be heard, and the holder's lease goes on.
    """
    if memory.is_over or memory.is_cancel_requested:
        return False
    if memory.is_broker_away:
        memory.lease.seen_s = memory.now_s
    return trainer_lease.watch(memory, alive(WorkerRole.TRAINER))


def next_deadline_s(memory: Memory) -> float:
    """When a decision is due even if nothing comes in."""
    if memory.n_started_now >= episodes.MOST_AT_ONCE:
        return memory.now_s
    times = (
        episodes.next_deadline_s(memory),
        waiting.next_check_s(memory),
        trainer_lease.next_check_s(memory),
        memory.source.next_check_s(memory),
    )
    return min(time for time in times if time is not None)


def _hopeless_reason(memory: Memory) -> str:
    n = max(memory.progress.n_grants_in_vain, memory.progress.n_losses_in_vain)
    return (
        f"{n} trainers in a row died or gave the model back after op {memory.answered_op};"
        " the logs of the GPU workers say why"
    )


def _absorb_opening(memory: Memory, result: OpResult) -> None:
    if isinstance(result.outcome, OpDone):
        trainer_lease.opened(memory)
        if memory.last_op == 0:
            resuming.begin(memory, result.outcome)
    elif result.outcome.elsewhere:
        trainer_lease.declined(memory)
    else:
        ending.end(memory, RunState.FAILED, f"the model can't be opened: {result.outcome.reason}")


def _expire(memory: Memory) -> None:
    """The end of the run closes every group, also those of this round that were not looked at."""
    for group in episodes.expire(memory):
        if memory.is_over:
            return
        _complete(memory, group)


def _complete(memory: Memory, group: Group) -> None:
    """Whatever may still come changes nothing for this group."""
    if group.purpose is EpisodePurpose.EVALUATE:
        evaluation.absorb(memory, group)
    elif group_policy.is_usable(memory, group):
        memory.progress.n_failed_groups_in_a_row = 0
        memory.ready.append(group)
        return
    else:
        memory.progress.n_admitted -= 1
        episodes.close(memory, group, "failed")
    if (reason := failure_limits.note_group(memory, group)) is not None:
        ending.end(memory, RunState.FAILED, reason)


def _advance(memory: Memory) -> bool:
    """Do what this stage allows; True when the next stage began."""
    match memory.stage.phase:
        case Phase.OPENING:
            is_done = resuming.is_ready(memory)
        case Phase.SFT:
            is_done = _advance_sft(memory)
        case Phase.EVALUATION:
            is_done = _advance_evaluation(memory)
        case Phase.TRAINING:
            is_done = _advance_training(memory)
        case Phase.CLOSING:
            return _advance_closing(memory)
    if is_done:
        _next_stage(memory)
    return is_done


def _advance_sft(memory: Memory) -> bool:
    assert memory.config.sft is not None
    sft.advance(memory, memory.config.sft)
    return _all_published(memory) or _is_exhausted(memory)


def _advance_evaluation(memory: Memory) -> bool:
    evaluation.advance(memory)
    return memory.progress.evaluation is None


def _advance_training(memory: Memory) -> bool:
    training.advance(memory)
    evaluation.advance(memory)
    if _is_exhausted(memory) and not memory.progress.n_consumed_steps:
        ending.end(memory, RunState.FAILED, _empty_reason(memory))
        return False
    has_enough = not training.steps_left(memory) or _is_exhausted(memory)
    return has_enough and _is_quiet(memory)


def _advance_closing(memory: Memory) -> bool:
    if not memory.progress.is_final_checkpoint_issued:
        memory.progress.is_final_checkpoint_issued = True
        checkpointing.checkpoint_at_end(memory)
    if checkpointing.is_saved(memory):
        ending.complete(memory)
    return False


def _all_published(memory: Memory) -> bool:
    return memory.progress.n_published_steps >= memory.stage.n_steps


def _is_exhausted(memory: Memory) -> bool:
    """Nothing more comes, and what came is not enough for another step."""
    is_short = len(memory.ready) < memory.groups_per_batch
    return is_short and memory.source.is_dry(memory) and not memory.progress.pending


def _empty_reason(memory: Memory) -> str:
    n_groups = memory.groups_per_batch
    return f"the recording holds no {n_groups} complete groups from where it was to be replayed on"


def _is_quiet(memory: Memory) -> bool:
    return not memory.progress.pending and memory.progress.evaluation is None


def _next_stage(memory: Memory) -> None:
    """Leave this stage: what is still in the air of it is of no use."""
    memory.source.leave(memory)
    for group in list(memory.groups.values()):
        episodes.close(memory, group, "abandoned")
    progress = memory.progress
    progress.stage += 1
    progress.n_admitted = progress.n_consumed_steps = progress.n_published_steps = 0
    resuming.skip_done(memory)
    _enter(memory)


def _enter(memory: Memory) -> None:
    stage = memory.stage
    if memory.state is RunState.QUEUED:
        memory.state = RunState.RUNNING
        memory.started_s = memory.now_s
        memory.change.run |= {"state": memory.state.value, "started_s": memory.now_s}
    memory.change.run["phase"] = stage.phase.value
    if stage.n_steps:
        steps.show(memory)
    memory.emit(StateChanged(state=memory.state, phase=stage.phase))
    memory.source.enter(memory)
    step_times.start_clock(memory)
    is_training = stage.phase is Phase.TRAINING
    if is_training and memory.config.algorithm.kl and not memory.progress.has_reference:
        op_log.append(memory, KeepReference())
    if stage.phase is Phase.EVALUATION and memory.config.evaluation and stage.when:
        evaluation.start(memory, memory.config.evaluation, stage.when)
