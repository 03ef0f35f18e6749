"""A client's requests become ops: in its order, a bounded number at a time.

Invariants: a request is in the op log once, or fails without having been there; it leaves `arrived` in the change
that does either. A request that fails before the log is followed there by an op that fails, so that the window of
its gradient is known to be incomplete. A `LoadState` waits until the checkpoint that it names is saved.
"""

import math

from warren_gateway.coordinator.clients.order import GAP_S, behind_gap, in_turn, next_gap_s
from warren_gateway.coordinator.learning import client_checkpoints
from warren_gateway.coordinator.learning.op_log import append
from warren_gateway.coordinator.state.client import Arrived, Asked, Taken
from warren_gateway.coordinator.state.client_change import failure
from warren_gateway.coordinator.state.coordinator import CoordinatorState
from warren_gateway.runs.kept_versions import in_use
from warren_schemas.training import LoadState, OpBody, PublishPolicy, Refused, SaveState

MOST_IN_LOG = 64
"""Ops that are in the log and not answered; what else was asked for waits before it."""
SAVE_AFTER_S = 60.0
"""What trainers may have to do again after a failover, at the least before a checkpoint is worth its time."""
SAVE_SHARE = 0.05
"""Most of a trainer's time that such checkpoints take."""
SAVE_AFTER_OPS = 512
LOOK_S = 10.0
"""Between two looks at a client that is overdue."""


def advance(state: CoordinatorState) -> None:
    """Everything whose turn has come goes into the log, as far as it has room."""
    _fail_behind_gap(state)
    for request in in_turn(state.client.arrived, state.client.next_sequence):
        if _is_full(state) or request.body is None or not _take(state, request, *request.body):
            break
    _save_if_due(state)


def has_unread(state: CoordinatorState) -> bool:
    """Whether there is room for requests of which only the heads are known."""
    client = state.client
    ready = in_turn(client.arrived, client.next_sequence)
    return bool(ready) and ready[0].body is None and not _is_full(state)


def is_look_due(state: CoordinatorState) -> bool:
    """Whether to see if the client has left."""
    return state.now_s >= _next_look_s(state)


def next_check_s(state: CoordinatorState, *, is_advancing: bool) -> float:
    """When to look again even if nothing comes in; a gap counts while `advance` would act on it."""
    client = state.client
    gap_s = None
    if is_advancing:
        gap_s = next_gap_s(client.arrived, client.next_sequence, client.attended_since_s)
    return min(_next_look_s(state), math.inf if gap_s is None else gap_s)


def _next_look_s(state: CoordinatorState) -> float:
    """When to see whether the client has left. One that is overdue may wait for long for what it asked for,
    or be heard of again at another gateway."""
    client = state.client
    return math.inf if client.until_s is None else max(client.until_s, client.looked_s + LOOK_S)


def has_left(state: CoordinatorState) -> bool:
    """The client was silent for too long, and waits for nothing."""
    return state.client.is_gone and not state.client.arrived and not state.client.taken


def _is_full(state: CoordinatorState) -> bool:
    return state.learning.ops.last - state.learning.ops.done >= MOST_IN_LOG


def _take(state: CoordinatorState, request: Arrived, asked: Asked, body: OpBody) -> bool:
    """Append its op; False where it has to wait."""
    ready = _completed(state, asked, body)
    if ready is None:
        return False
    if isinstance(ready, SaveState):
        expires_s = None if asked.ttl_s is None else state.now_s + asked.ttl_s
        number = client_checkpoints.save(
            state,
            label=asked.name,
            expires_s=expires_s,
            metadata=asked.metadata,
        )
        _note_save(state)
    else:
        number = append(state, ready)
        state.client.is_save_due |= isinstance(ready, LoadState)
    state.client.arrived.remove(request)
    if request.sequence is not None:
        state.client.next_sequence = request.sequence + 1
    state.client.taken[number] = Taken(id=request.id, kind=body.kind, asked=asked)
    state.change.client.taken[request.id] = number
    return True


def _completed(state: CoordinatorState, asked: Asked, body: OpBody) -> OpBody | None:
    """The op with what only the coordinator knows; None while it can't be known."""
    if isinstance(body, PublishPolicy):
        return PublishPolicy(keep=_kept(state), is_live=body.is_live)
    if isinstance(body, SaveState) and _is_taken(state, asked):
        return Refused(
            reason=f"there is a checkpoint {asked.name} already; choose another name, or say overwrite"
        )
    if isinstance(body, LoadState) and asked.name is not None:
        mark = client_checkpoints.find(state, asked.name)
        if mark is None:
            return Refused(reason=f"the model has no checkpoint {asked.name}")
        return None if mark.url is None else LoadState(url=mark.url, optimizer=body.optimizer)
    return body


def _kept(state: CoordinatorState) -> tuple[int, ...]:
    """Versions that somebody may sample from still. One that an op in the log publishes is none of these yet, and is
    among the newest: the log has no room for as many others."""
    client, served = state.client, in_use(state.observed.served, state.now_s)
    live = set[int]() if client.live_version is None else {client.live_version}
    return tuple(sorted(client.pinned | client.sampled | set(client.unopened) | live | served))


def _is_taken(state: CoordinatorState, asked: Asked) -> bool:
    is_known = asked.name is not None and client_checkpoints.find(state, asked.name) is not None
    return is_known and not asked.overwrite


def _fail_behind_gap(state: CoordinatorState) -> None:
    """A number that never came: what was to follow it can't be applied in its order."""
    client = state.client
    missing = client.next_sequence
    lost = behind_gap(client.arrived, missing, state.now_s, client.attended_since_s)
    if not lost:
        return
    for request in lost:
        sequence = request.sequence or 0
        reason = _late(sequence) if sequence < missing else _gap(missing, sequence)
        state.change.client.outcomes[request.id] = failure(state.model, reason, is_users=True)
        state.client.arrived.remove(request)
        state.client.next_sequence = max(state.client.next_sequence, sequence + 1)
    if state.client.next_sequence > missing:
        append(state, Refused(reason=f"request {missing} never came", spoils_gradient=True))


def _late(sequence: int) -> str:
    return f"request {sequence} came after later ones were applied or given up; send it with a new number"


def _gap(missing: int, sequence: int) -> str:
    return (
        f"request {missing} has not come within {GAP_S:g} s, so {sequence} can't be applied in its order;"
        " send both again, with new numbers"
    )


def _save_if_due(state: CoordinatorState) -> None:
    """Now and then a checkpoint that nobody asked for, so that a failover replays little."""
    client = state.client
    cost_s = max(SAVE_AFTER_S, client.save_s / SAVE_SHARE)
    n_unsaved = state.learning.ops.last - client_checkpoints.newest_op(state.learning)
    if not n_unsaved or _is_full(state):
        return
    if client.is_save_due or client.unsaved_s >= cost_s or n_unsaved >= SAVE_AFTER_OPS:
        client_checkpoints.save(state)
        _note_save(state)


def _note_save(state: CoordinatorState) -> None:
    state.client.unsaved_s, state.client.is_save_due = 0.0, False
