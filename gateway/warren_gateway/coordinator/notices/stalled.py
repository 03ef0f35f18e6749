"""Stalled runs: after a while without progress a run says what it waits for.

It moves when an episode ends, an op is answered, a step or a stage is done, or something of a recording
is read. Invariant: what is told is a function of what the coordinator knows, so no cause needs to be
foreseen: where none fits, its counters are told.
"""

import math

from warren_gateway.coordinator.learning import op_log
from warren_gateway.coordinator.rollouts import episodes
from warren_gateway.coordinator.state.coordinator import CoordinatorState
from warren_gateway.coordinator.state.waiting import StallState


def reason(state: CoordinatorState) -> str | None:
    """Why nothing has moved for `limits.stalled_after_s`; None where something has, and where it is the client
    that nothing comes from."""
    if state.is_clients and not op_log.has_unanswered(state.learning):
        reset(state)
        return None
    still, mark = state.waiting.stall, _mark(state)
    if mark != still.mark:
        state.waiting.stall = StallState(mark, state.now_s)
    elif state.now_s >= _due_s(state):
        still.n_told += 1
        still.reason = _sentence(state)
    return state.waiting.stall.reason


def reset(state: CoordinatorState) -> None:
    """Why nothing moves is known: a worker is missing."""
    state.waiting.stall = StallState()


def next_check_s(state: CoordinatorState) -> float:
    """When to say it, or to say it again."""
    return _due_s(state) if state.waiting.stall.mark else math.inf


def _due_s(state: CoordinatorState) -> float:
    """After the patience, then after twice that, and so on."""
    still = state.waiting.stall
    return still.since_s + state.config.limits.stalled_after_s * 2**still.n_told


def _mark(state: CoordinatorState) -> tuple[object, ...]:
    return (
        state.stage_number,
        state.learning.steps.n_consumed,
        state.learning.steps.n_published,
        state.rollouts.stream_offset,
        state.source.read_from(state.rollouts),
        state.learning.ops.done,
        state.lease.is_opened,
    )


def _sentence(state: CoordinatorState) -> str:
    minutes = (state.now_s - state.waiting.stall.since_s) / 60.0
    causes = [*_of_the_broker(state), *_of_the_trainer(state), *_of_the_episodes(state)]
    told = "; ".join(causes) or _counters(state)
    return f"nothing has moved for {minutes:.3g} min ({state.stage.phase}): {told}"


def _of_the_broker(state: CoordinatorState) -> list[str]:
    return ["the broker gives no answer"] if state.observed.is_broker_away else []


def _of_the_trainer(state: CoordinatorState) -> list[str]:
    lease, n_waiting = state.lease, state.learning.ops.last - state.learning.ops.done
    if not state.needs_trainer:
        return []
    if lease.holder is None:
        return ["no trainer has the model"]
    if not lease.is_opened:
        return [f"trainer {lease.holder} was given the model and has not opened it; see its log"]
    if n_waiting:
        first = state.learning.ops.done + 1
        return [
            f"trainer {lease.holder} leaves {n_waiting} ops unanswered, from op {first} on; see its log"
        ]
    return []


def _of_the_episodes(state: CoordinatorState) -> list[str]:
    in_flight = state.rollouts.groups.in_flight.total()
    if not in_flight:
        return []
    deepest = {tag: n for tag, n in sorted(state.observed.queue_depths.items()) if n}
    where = (
        "waiting for workers: "
        + ", ".join(
            f"{n:.0f} messages in {tag.removeprefix('queue/')}" for tag, n in deepest.items()
        )
        if deepest
        else "no queue holds a message, so env workers or samplers have them in hand; see their logs"
    )
    deadline_s = episodes.next_deadline_s(state.rollouts)
    told = [f"{in_flight} episodes are in flight and none ends ({where})"]
    if deadline_s is not None and deadline_s < math.inf:
        told.append(
            f"the next are started again in {max(0.0, deadline_s - state.now_s):.0f} s"
            " (limits.episode_s)"
        )
    return told


def _counters(state: CoordinatorState) -> str:
    shares = ", ".join(f"{n} of {key}" for key, n in sorted(state.observed.shares.items()))
    return (
        f"no episode is in flight and no op is unanswered; step {state.learning.steps.n_consumed} of"
        f" {state.stage.n_steps}, {state.rollouts.n_admitted} groups admitted, {len(state.rollouts.ready)} of"
        f" {state.groups_per_batch} ready, {len(state.learning.steps.pending)} steps pending, capacity of env"
        f" workers: {shares or 'no share known'}. Cancel the run and report this, with the"
        " gateway's log"
    )
