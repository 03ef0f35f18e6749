"""The op log of the run's model: append, send, take answers.

Invariants: numbers run without a gap; an op is stored before it is sent; an answer counts once and
only from the lease in force; answers are taken in the order of their numbers.
"""

from warren_broker.topology import train
from warren_gateway.coordinator.change import op_row
from warren_gateway.coordinator.state import Memory
from warren_schemas.envelope import Envelope
from warren_schemas.training import Op, OpBody, OpDone, OpFailed, OpResult


def append(memory: Memory, body: OpBody) -> int:
    """Add an op to the log and send it to whoever holds the lease; its number."""
    memory.last_op += 1
    memory.change.model["last_op"] = memory.last_op
    op = Op(
        envelope=Envelope(run=memory.run),
        model=memory.model,
        epoch=max(1, memory.lease.epoch),
        number=memory.last_op,
        body=body,
    )
    memory.change.ops.append(op_row(memory.model, op.number, body.kind, op))
    if memory.lease.holder is not None:
        memory.change.send(train(memory.model, memory.lease.epoch), op)
    return op.number


def take_answer(memory: Memory, result: OpResult) -> list[OpResult]:
    """Note an answer; all answers that are now in order, oldest first."""
    if result.epoch != memory.lease.epoch or result.number <= memory.done_op:
        return []
    memory.early_answers[result.number] = result
    in_order: list[OpResult] = []
    while answer := memory.early_answers.pop(memory.done_op + 1, None):
        memory.done_op += 1
        memory.answered_op = max(memory.answered_op, memory.done_op)
        _record(memory, answer)
        in_order.append(answer)
    return in_order


def _record(memory: Memory, result: OpResult) -> None:
    outcome = result.outcome
    memory.change.model["done_op"] = result.number
    if isinstance(outcome, OpFailed):
        memory.change.answers[result.number] = outcome.model_dump()
        return
    memory.change.answers[result.number] = {"status": "done", "metrics": outcome.metrics}
    memory.change.model["version"] = outcome.version
    _record_policy(memory, outcome)
    if outcome.checkpoint_url is not None:
        memory.checkpoint_op, memory.checkpoint_url = result.number, outcome.checkpoint_url
        memory.change.model |= {
            "checkpoint_op": result.number,
            "checkpoint_url": outcome.checkpoint_url,
        }
        memory.change.prune_ops_to = result.number


def _record_policy(memory: Memory, outcome: OpDone) -> None:
    policy = outcome.policy
    if policy is not None and policy.version >= memory.policy_version:
        memory.policy_version, memory.policy_url = policy.version, policy.url
        memory.change.model |= {"policy_version": policy.version, "policy_url": policy.url}
