"""What will go wrong, and when: a plan drawn from a seed.

The same seed and number of faults give the same plan. Kinds come in fixed shares, so that every plan
of `LEAST_FAULTS` or more holds each kind at least once.
"""

import random
from dataclasses import dataclass
from enum import StrEnum


class FaultKind(StrEnum):
    KILL_GATEWAY = "kill gateway"
    KILL_GPU_WORKER = "kill gpu worker"
    KILL_ENV_WORKER = "kill env worker"
    KILL_TAKER = "kill a gpu worker that just took a job"
    KILL_GRANTER = "kill a gateway as a job was taken"
    KILL_CHILDREN = "kill children of a worker"
    FREEZE_GATEWAY = "freeze gateway"
    FREEZE_GPU_WORKER = "freeze gpu worker"
    FREEZE_ENV_WORKER = "freeze env worker"
    CUT_BROKER_LINK = "cut a link to the broker"
    STALL_BROKER_LINK = "stall a link to the broker"
    CUT_STORE_LINK = "cut a link to the store"
    CUT_CLIENT_LINK = "cut the clients' links"
    TWINS = "deliver messages twice"
    DELAY = "deliver messages late"
    STEP_CLOCK = "set a clock by a minute"
    KILL_BROKER = "kill the broker"
    FREEZE_BROKER = "freeze the broker"
    KILL_STORE = "kill the store"
    FREEZE_STORE = "freeze the store"
    STORE_READ_ONLY = "store refuses to write"


SHARES = {
    FaultKind.KILL_GATEWAY: 3,
    FaultKind.KILL_GPU_WORKER: 3,
    FaultKind.KILL_ENV_WORKER: 6,
    FaultKind.KILL_TAKER: 2,
    FaultKind.KILL_GRANTER: 1,
    FaultKind.KILL_CHILDREN: 4,
    FaultKind.FREEZE_GATEWAY: 2,
    FaultKind.FREEZE_GPU_WORKER: 3,
    FaultKind.FREEZE_ENV_WORKER: 3,
    FaultKind.CUT_BROKER_LINK: 8,
    FaultKind.STALL_BROKER_LINK: 3,
    FaultKind.CUT_STORE_LINK: 4,
    FaultKind.CUT_CLIENT_LINK: 3,
    FaultKind.TWINS: 4,
    FaultKind.DELAY: 4,
    FaultKind.STEP_CLOCK: 2,
    FaultKind.KILL_BROKER: 1,
    FaultKind.FREEZE_BROKER: 1,
    FaultKind.KILL_STORE: 1,
    FaultKind.FREEZE_STORE: 1,
    FaultKind.STORE_READ_ONLY: 1,
}
LEAST_FAULTS = sum(SHARES.values())
LONG = (FaultKind.FREEZE_GATEWAY, FaultKind.FREEZE_GPU_WORKER, FaultKind.FREEZE_ENV_WORKER)
FREEZE_S = 18.0
"""Longer than any lease: of a run, of a model, of a home."""
SHORT_S = 5.0


@dataclass(frozen=True, slots=True)
class Fault:
    at_s: float
    """After the start of the plan."""
    kind: FaultKind
    victim: float
    """In [0, 1): which of those that are there; their number may have changed by then."""

    @property
    def lasts_s(self) -> float:
        return FREEZE_S if self.kind in LONG else SHORT_S


def make_plan(seed: int, n_faults: int, *, gap_s: float) -> list[Fault]:
    """`n_faults` faults, `gap_s` apart in the mean."""
    rng = random.Random(seed)
    kinds = [kind for kind, share in SHARES.items() for _ in range(share)]
    drawn = [kind for _ in range(0, n_faults, len(kinds)) for kind in rng.sample(kinds, len(kinds))]
    times = sorted(rng.uniform(0, n_faults * gap_s) for _ in range(n_faults))
    return [
        Fault(at_s, kind, rng.random()) for at_s, kind in zip(times, drawn[:n_faults], strict=True)
    ]
