"""What the trainer answered, for the client that waits for it.

Invariant: what a client was told stays so: an op that is applied again after a failover answers nobody again.
"""

import logging

from warren_gateway.coordinator.clients import windows
from warren_gateway.coordinator.clients.sampled_versions import MOST_SAMPLED
from warren_gateway.coordinator.learning import client_checkpoints, steps
from warren_gateway.coordinator.state.client import UNDELIVERED_S, Taken
from warren_gateway.coordinator.state.coordinator import CoordinatorState
from warren_schemas.events import WarningRaised
from warren_schemas.training import OpDone, OpFailed, OpResult

log = logging.getLogger(__name__)


def note_answer(state: CoordinatorState, answer: OpResult) -> str | None:
    """An op of the log is answered, in its order; why the model can't begin, if that is what it says."""
    taken, outcome = state.client.taken.pop(answer.number, None), answer.outcome
    if isinstance(outcome, OpFailed):
        _note_failure(state, answer, outcome, taken)
    else:
        _note_done(state, answer.number, outcome, taken)
    windows.note_answer(state, answer, taken)
    if taken is None:
        return None
    state.change.client.outcomes[taken.id] = answer
    if taken.asked.is_beginning and isinstance(outcome, OpFailed):
        return f"the model can't begin: {outcome.reason}"
    return None


def _note_done(state: CoordinatorState, number: int, outcome: OpDone, taken: Taken | None) -> None:
    client = state.client
    if outcome.notice is not None:
        state.emit(WarningRaised(message=outcome.notice))
    if outcome.checkpoint_url is not None:
        client_checkpoints.forget_overwritten(state.learning, number)
        client.save_s = outcome.duration_s
    else:
        client.unsaved_s += outcome.duration_s
    if outcome.version != client.version:
        client.version = state.change.run["step"] = outcome.version
    if (policy := outcome.policy) is None:
        return
    steps.list_policy(state, policy.version, policy.version)
    if policy.is_live and policy.version >= (client.live_version or 0):
        client.live_version = policy.version
        state.change.model |= {"live_version": policy.version, "live_url": policy.url}
    if taken is not None and taken.asked.opens_sampler:
        unopened = {**client.unopened, policy.version: state.now_s + UNDELIVERED_S}
        client.unopened = dict(sorted(unopened.items())[-MOST_SAMPLED:])
    if taken is not None and (name := taken.asked.name) is not None:
        client.pinned.add(policy.version)
        ttl_s = taken.asked.ttl_s
        state.change.client.snapshots.append(
            {
                "model_id": state.model,
                "name": name,
                "version": policy.version,
                "url": policy.url,
                "size_bytes": policy.size_bytes,
                "created_s": state.now_s,
                "expires_s": None if ttl_s is None else state.now_s + ttl_s,
                "metadata_": taken.asked.metadata,
            }
        )


def _note_failure(
    state: CoordinatorState, answer: OpResult, outcome: OpFailed, taken: Taken | None
) -> None:
    client_checkpoints.forget_failed(state.learning, answer.number)
    if taken is None:
        log.warning("%s: op %d failed: %s", state.run, answer.number, outcome.reason)
