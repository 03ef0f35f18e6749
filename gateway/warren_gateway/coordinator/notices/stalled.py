"""A run of which nothing moves says what it waits for, whatever the cause.

It moves when an episode ends, an op is answered, a step or a stage is done, or something of a recording
is read. Invariant: what is told is a function of what the coordinator knows, so no cause needs to be
foreseen: where none fits, its counters are told.
"""

import math

from warren_gateway.coordinator.rollouts import episodes
from warren_gateway.coordinator.state import Memory, Stillness


def reason(memory: Memory) -> str | None:
    """Why nothing has moved for `limits.stalled_after_s`; None where something has."""
    still, mark = memory.stillness, _mark(memory)
    if mark != still.mark:
        memory.stillness = Stillness(mark, memory.now_s)
    elif memory.now_s >= _due_s(memory):
        still.n_told += 1
        still.reason = _sentence(memory)
    return memory.stillness.reason


def forget(memory: Memory) -> None:
    """Why nothing moves is known: a worker is missing."""
    memory.stillness = Stillness()


def next_check_s(memory: Memory) -> float:
    """When to say it, or to say it again."""
    return _due_s(memory) if memory.stillness.mark else math.inf


def _due_s(memory: Memory) -> float:
    """After the patience, then after twice that, and so on."""
    still = memory.stillness
    return still.since_s + memory.config.limits.stalled_after_s * 2**still.n_told


def _mark(memory: Memory) -> tuple[object, ...]:
    progress = memory.progress
    return (
        progress.stage,
        progress.n_consumed_steps,
        progress.n_published_steps,
        memory.stream_offset,
        memory.source.resume_offset(memory),
        memory.done_op,
        memory.lease.is_opened,
    )


def _sentence(memory: Memory) -> str:
    minutes = (memory.now_s - memory.stillness.since_s) / 60.0
    causes = [*_of_the_broker(memory), *_of_the_trainer(memory), *_of_the_episodes(memory)]
    told = "; ".join(causes) or _counters(memory)
    return f"nothing has moved for {minutes:.3g} min ({memory.stage.phase}): {told}"


def _of_the_broker(memory: Memory) -> list[str]:
    return ["the broker gives no answer"] if memory.is_broker_away else []


def _of_the_trainer(memory: Memory) -> list[str]:
    lease, n_waiting = memory.lease, memory.last_op - memory.done_op
    if lease.holder is None:
        return ["no trainer has the model"]
    if not lease.is_opened:
        return [f"trainer {lease.holder} was given the model and has not opened it; see its log"]
    if n_waiting:
        first = memory.done_op + 1
        return [
            f"trainer {lease.holder} leaves {n_waiting} ops unanswered, from op {first} on; see its log"
        ]
    return []


def _of_the_episodes(memory: Memory) -> list[str]:
    in_flight = sum(group.n_missing for group in memory.groups.values())
    if not in_flight:
        return []
    deepest = {tag: n for tag, n in sorted(memory.queue_depths.items()) if n}
    where = (
        "waiting for workers: "
        + ", ".join(
            f"{n:.0f} messages in {tag.removeprefix('queue/')}" for tag, n in deepest.items()
        )
        if deepest
        else "no queue holds a message, so env workers or samplers have them in hand; see their logs"
    )
    deadline_s = episodes.next_deadline_s(memory)
    told = [f"{in_flight} episodes are in the air and none ends ({where})"]
    if deadline_s is not None:
        told.append(
            f"the next are started again in {max(0.0, deadline_s - memory.now_s):.0f} s"
            " (limits.episode_s)"
        )
    return told


def _counters(memory: Memory) -> str:
    progress = memory.progress
    n_places = ", ".join(f"{n} at {place}" for place, n in sorted(memory.shares.items()))
    return (
        f"no episode is in the air and no op is unanswered; step {progress.n_consumed_steps} of"
        f" {memory.stage.n_steps}, {progress.n_admitted} groups admitted, {len(memory.ready)} of"
        f" {memory.groups_per_batch} ready, {len(progress.pending)} steps pending, places of env"
        f" workers: {n_places or 'no share known'}. Cancel the run and report this, with the"
        " gateway's log"
    )
