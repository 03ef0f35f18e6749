"""What workers answer is taken in: that a trainer has the model open, what became of each op, and of groups that were compared.

Pure, like `decisions`.
"""

import logging

from warren_gateway.coordinator import ending
from warren_gateway.coordinator.clients import answers
from warren_gateway.coordinator.ending import failed
from warren_gateway.coordinator.learning import checkpointing, op_log, resuming, steps
from warren_gateway.coordinator.lease import trainer_lease
from warren_gateway.coordinator.rollouts import completed, group_rewards
from warren_gateway.coordinator.state.coordinator import CoordinatorState
from warren_schemas.group_scoring import GroupScored
from warren_schemas.training import OpDone, OpFailed, OpResult

log = logging.getLogger(__name__)


def absorb_group(state: CoordinatorState, scored: GroupScored) -> None:
    """An env worker has compared the members of a group; what nobody waits for any more is dropped."""
    group = None if state.is_over else group_rewards.absorb(state, scored)
    if group is not None:
        ending.end(state, failed(completed.take_in(state, group)))


def absorb_answer(state: CoordinatorState, result: OpResult) -> None:
    """The trainer has answered an op; what answers none of ours is dropped."""
    if state.is_over or result.epoch != state.lease.epoch:
        return
    if result.model != state.model or result.number > state.learning.ops.last:
        return log.warning(
            "%s: an answer to op %d of %s is dropped: the newest op of %s is %d",
            state.run, result.number, result.model, state.model, state.learning.ops.last,
        )  # fmt: skip
    if result.number == 0:
        return _absorb_opening(state, result)
    outcome = result.outcome
    if isinstance(outcome, OpFailed) and outcome.ahead_version is not None:
        if not op_log.is_answered(state.learning, result.number):
            _absorb_going_ahead(state, result.number, outcome.ahead_version)
        return
    if op_log.contradicts(state.learning, result):
        return trainer_lease.give_elsewhere(state, result.number)
    for answer in op_log.take_answer(state, result):
        if state.is_over:
            return
        checkpointing.note_saved(state, answer)
        if state.is_clients:
            ending.end(state, failed(answers.note_answer(state, answer)))
            continue
        steps.note_answer(state, answer)
        if isinstance(answer.outcome, OpFailed):
            reason = f"training op {answer.number}: {answer.outcome.reason}"
            ending.end(state, failed(reason))


def _absorb_opening(state: CoordinatorState, result: OpResult) -> None:
    """Of a lease that was given back or lost meanwhile, it says nothing."""
    if state.lease.holder is None:
        return
    if isinstance(result.outcome, OpDone):
        trainer_lease.opened(state)
        resuming.note_opened(state.learning, result.outcome)
        if state.learning.ops.last == 0:
            resuming.begin(state, result.outcome)
    elif result.outcome.elsewhere:
        trainer_lease.declined(state)
    else:
        ending.end(state, failed(f"the model can't be opened: {result.outcome.reason}"))


def _absorb_going_ahead(state: CoordinatorState, number: int, version: int) -> None:
    ending.end(state, failed(trainer_lease.gone_ahead(state, number, version)))
