"""Why no trainer has capacity for a run's model: who holds them, and what can be done about it.

Invariant: a run of another owner is not named.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from warren_gateway.advice import Advice
from warren_gateway.coordinator.state.observed import TrainedRun
from warren_gateway.drained import drained_one, undrain
from warren_schemas.control import Heartbeat
from warren_schemas.ids import ModelId

MOST_NAMED = 3
_BUSY = "every trainer that offers"


def holding(base: str, trainers: Sequence[Heartbeat]) -> frozenset[ModelId]:
    """The models that trainers hold which could train another one of this base model."""
    return frozenset(held.model for t in trainers if base in t.offers for held in t.models)


def reason(
    base: str,
    trainers: Sequence[Heartbeat],
    known: Mapping[ModelId, TrainedRun],
    *,
    owner: str,
    is_full: bool,
    advice: Advice,
) -> str:
    """A sentence without its full stop. `trainers`: all that have the GPUs, also those that are drained, which offer
    nothing."""
    held = holding(base, trainers)
    holders = [run for model, run in sorted(known.items()) if model in held or run.has_place]
    own = [run for run in holders if run.owner == owner]
    told = _told(own, len(holders) - len(own))
    choices = ["wait until one of them ends" if len(holders) > 1 else "wait until it ends"]
    if own:
        choices.append(f"cancel it with: warren runs cancel {own[0].id}")
    if more := advice.more_capacity(base, is_full=is_full):
        choices.append(more)
    if (drained := drained_one(base, trainers)) is not None:
        choices.append(undrain(drained))
    return f"{_BUSY} {base} is busy{told}; {', or '.join(choices)}"


def is_told(reason: str | None) -> bool:
    """Whether a run's reason to wait is of this kind."""
    return (reason or "").startswith(_BUSY)


def placed(run: TrainedRun) -> TrainedRun:
    """A run that was admitted. It no longer waits for a trainer, though its coordinator may not have said so yet."""
    waiting_for = None if is_told(run.waiting_for) else run.waiting_for
    return replace(run, waiting_for=waiting_for, has_place=True)


def _told(own: Sequence[TrainedRun], n_others: int) -> str:
    names = [_named(run) for run in own[:MOST_NAMED]]
    if left := len(own) - len(names):
        names.append(f"{left} more of yours")
    if n_others:
        names.append("another user's run" if n_others == 1 else f"{n_others} runs of other users")
    if not names:
        return ""
    verb = "has" if len(own) + n_others == 1 else "have"
    return f": {' and '.join(filter(None, [', '.join(names[:-1]), names[-1]]))} {verb} it"


def _named(run: TrainedRun) -> str:
    waits = f", which waits itself: {run.waiting_for}" if run.waiting_for else ""
    return f"{run.name} ({run.id}{waits})"
