"""The op log of the run's model: append, send, take answers.

Invariants: numbers run without a gap; an op is stored before it is sent; an answer counts once and
only from the lease in force; answers are taken in the order of their numbers; an op that is applied again is done
or fails as it did before. An answer is bound to its op by the op's id: a store that lost its newest changes gives a
number to another op, and what a trainer answered to the first one says nothing of that.
"""

import logging
from collections.abc import Sequence
from typing import Any

from warren_broker.topology import train
from warren_gateway.coordinator.state.change import op_row
from warren_gateway.coordinator.state.coordinator import CoordinatorState
from warren_gateway.coordinator.state.learning import LearningState
from warren_schemas.envelope import Envelope
from warren_schemas.training import (
    ForwardBackward,
    Op,
    OpBody,
    OpDone,
    OpFailed,
    OpResult,
    OptimStep,
    Refused,
)

N_TOKENS = "tokens:sum"
"""What a trainer calls the tokens that it computed a loss over."""

log = logging.getLogger(__name__)


def append(state: CoordinatorState, body: OpBody) -> int:
    """Add an op to the log and send it to whoever holds the lease; its number."""
    state.learning.ops.last += 1
    state.change.model["last_op"] = state.learning.ops.last
    op = Op(
        envelope=Envelope(run=state.run),
        model=state.model,
        epoch=max(1, state.lease.epoch),
        number=state.learning.ops.last,
        body=body,
    )
    state.learning.ops.ids[op.number] = op.envelope.id
    state.change.ops.append(op_row(state.model, op.number, body.kind, op))
    if state.lease.holder is not None:
        state.change.send(train(state.model, state.lease.epoch), op)
    return op.number


def restore(learning: LearningState, ids: Sequence[tuple[int, str]], done: Sequence[int]) -> None:
    """Of the ops after the checkpoint, as the store has them: their ids, and which were done."""
    learning.ops.ids, learning.ops.known_done = dict(ids), set(done)


def sent_again(op: Op, outcome: dict[str, Any] | None) -> Op:
    """The op as a new holder of the lease is to apply it: one that has failed fails again, for its client was told so."""
    if outcome is None or outcome["status"] != "failed" or isinstance(op.body, Refused):
        return op
    body = Refused(
        reason=outcome["reason"],
        spoils_gradient=isinstance(op.body, ForwardBackward),
        begins_window=isinstance(op.body, OptimStep),
    )
    return op.model_copy(update={"body": body})


def contradicts(learning: LearningState, result: OpResult) -> bool:
    """An op that was done for an earlier holder has failed for this one: what follows would not be what it was."""
    is_new = result.number > learning.ops.done and result.op == learning.ops.ids.get(result.number)
    is_failed = isinstance(result.outcome, OpFailed)
    return is_new and is_failed and result.number in learning.ops.known_done


def has_unanswered(learning: LearningState) -> bool:
    """Whether the holder of the lease has something to do."""
    return learning.ops.done < learning.ops.last


def is_answered(learning: LearningState, number: int) -> bool:
    """By the holder of the lease in force."""
    return number <= learning.ops.done or number in learning.ops.early_answers


def take_answer(state: CoordinatorState, result: OpResult) -> list[OpResult]:
    """Note an answer; all answers that are now in order, oldest first."""
    if result.epoch != state.lease.epoch or result.number <= state.learning.ops.done:
        return []
    if result.op != state.learning.ops.ids.get(result.number, ""):
        log.warning("%s: an answer to another op %d is dropped", state.run, result.number)
        return []
    state.learning.ops.early_answers[result.number] = result
    in_order: list[OpResult] = []
    while answer := state.learning.ops.early_answers.pop(state.learning.ops.done + 1, None):
        state.learning.ops.done += 1
        state.learning.ops.answered = max(state.learning.ops.answered, state.learning.ops.done)
        _record(state, answer)
        in_order.append(answer)
    return in_order


def rewind(learning: LearningState) -> None:
    """A new holder begins at the checkpoint, and answers every op after it again."""
    learning.ops.done = learning.checkpoints.newest_op
    learning.ops.early_answers.clear()
    for pending in learning.steps.pending:
        if pending.first_op > learning.checkpoints.newest_op:
            pending.answers.clear()
            pending.evaluation_answers.clear()
            pending.training_s = 0.0


def _record(state: CoordinatorState, result: OpResult) -> None:
    outcome = result.outcome
    state.change.model["done_op"] = result.number
    if isinstance(outcome, OpFailed):
        state.change.answers[result.number] = outcome.model_dump()
        return
    state.change.answers[result.number] = {"status": "done", "metrics": outcome.metrics}
    state.learning.ops.known_done.add(result.number)
    state.change.model["version"] = outcome.version
    _count_use(state, result.number, outcome)
    _record_policy(state, outcome)
    if outcome.checkpoint_url is not None:
        state.learning.checkpoints.newest_op, state.learning.checkpoints.newest_url = (
            result.number,
            outcome.checkpoint_url,
        )
        state.change.model |= {
            "checkpoint_op": result.number,
            "checkpoint_url": outcome.checkpoint_url,
        }
        state.change.prune_ops_to = result.number
        for number in [n for n in state.learning.ops.ids if n <= result.number]:
            del state.learning.ops.ids[number]
            state.learning.ops.known_done.discard(number)


def _count_use(state: CoordinatorState, number: int, outcome: OpDone) -> None:
    """Once for each op, however often trainers that followed each other had to apply it."""
    if number <= state.learning.ops.counted:
        return
    state.learning.ops.counted = number
    state.change.used.training_gpu_s += outcome.gpu_s
    state.change.used.n_tokens_trained += round(outcome.metrics.get(N_TOKENS, 0.0))


def _record_policy(state: CoordinatorState, outcome: OpDone) -> None:
    policy = outcome.policy
    if policy is not None and policy.version >= state.learning.policy.version:
        state.learning.policy.version, state.learning.policy.url = policy.version, policy.url
        state.change.model |= {
            "policy_version": policy.version,
            "policy_url": policy.url,
            "policy_bytes": policy.size_bytes,
        }
