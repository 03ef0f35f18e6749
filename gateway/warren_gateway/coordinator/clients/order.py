"""The order of a client's requests, whatever order they come in. Pure.

Invariants: requests with a sequence number take their turns by it, without a gap; those without one as they came.
What waits behind a gap is told so after `GAP_S`: nobody hangs because a number never came. Only the time counts in
which it could have come (`attended_since_s`).
"""

from collections.abc import Iterable, Sequence

from warren_gateway.coordinator.state.client import Arrived

GAP_S = 90.0
"""How long a number may be missing while later ones are here."""


def in_turn(arrived: Iterable[Arrived], next_sequence: int) -> list[Arrived]:
    """Those whose turn has come, in order; `arrived` are in the order of their arrival."""
    early: dict[int, Arrived] = {}
    ready: list[Arrived] = []
    for request in arrived:
        if request.sequence is None:
            ready.append(request)
            continue
        early[request.sequence] = request
        while (one := early.pop(next_sequence, None)) is not None:
            ready.append(one)
            next_sequence += 1
    return ready


def behind_gap(
    arrived: Sequence[Arrived], next_sequence: int, now_s: float, attended_since_s: float
) -> list[Arrived]:
    """Those that wait for a number that has not come in time, or came after theirs was given up."""
    due_s = next_gap_s(arrived, next_sequence, attended_since_s)
    waiting = _waiting(arrived, next_sequence)
    if due_s is not None and now_s >= due_s:
        return waiting
    return [one for one in waiting if (one.sequence or 0) < next_sequence]


def next_gap_s(
    arrived: Sequence[Arrived], next_sequence: int, attended_since_s: float
) -> float | None:
    """When the oldest that waits for a missing number has waited long enough.

    None also while the next number is here and the log has no room for it: nothing is missing yet.
    """
    if any(one.sequence == next_sequence for one in arrived):
        return None
    waiting = _waiting(arrived, next_sequence)
    begun_s = (max(one.arrived_s, attended_since_s) for one in waiting)
    return min((since_s + GAP_S for since_s in begun_s), default=None)


def _waiting(arrived: Sequence[Arrived], next_sequence: int) -> list[Arrived]:
    ready = {request.id for request in in_turn(arrived, next_sequence)}
    return [one for one in arrived if one.id not in ready]
