"""The order in which jobs have a claim to room."""

from collections.abc import Iterable, Iterator, Mapping
from itertools import groupby
from operator import attrgetter, itemgetter

from warren_gateway.scheduling.decision.inputs import HeldJob, OwnerShare, TrainerState, WaitingJob

HELD_S = 3600.0
"""A job that is held, or ahead in the order, counts for its owner as so many seconds of what it holds."""
LEAST_WEIGHT = 1e-9


class Use:
    """The use of one owner. GPUs are counted in whole numbers, so that no order of adding matters."""

    __slots__ = (
        "_n_slots",
        "_used_gpu_s",
        "_weight",
        "most_held",
        "n_gpus_shared",
        "n_gpus_whole",
        "n_held",
    )

    def __init__(self, share: OwnerShare, n_slots: int) -> None:
        self._n_slots, self._used_gpu_s = n_slots, share.used_gpu_s
        self._weight = max(share.weight, LEAST_WEIGHT)
        self.most_held = share.most_held
        self.n_held = 0
        self.n_gpus_whole = self.n_gpus_shared = 0

    def charge(self, job: WaitingJob | HeldJob) -> None:
        if job.is_full or job.n_gpus > 1:
            self.n_gpus_whole += job.n_gpus
        else:
            self.n_gpus_shared += 1

    @property
    def weighted(self) -> float:
        n_gpus = self.n_gpus_whole + self.n_gpus_shared / self._n_slots
        return (self._used_gpu_s + HELD_S * n_gpus) / self._weight

    @property
    def is_at_quota(self) -> bool:
        return self.most_held is not None and self.n_held >= self.most_held


def uses(
    waiting: Iterable[WaitingJob],
    held: Iterable[HeldJob],
    trainers: Iterable[TrainerState],
    owners: Mapping[str, OwnerShare],
) -> dict[str, Use]:
    """Of everybody who waits or holds, with what is held charged. A LoRA job counts as its part of a GPU."""
    n_slots = max((trainer.max_models for trainer in trainers), default=1)
    known: dict[str, Use] = {}
    for owner in {job.owner for job in waiting} | {job.owner for job in held}:
        known[owner] = Use(owners.get(owner) or OwnerShare(owner), max(1, n_slots))
    for job in held:
        known[job.owner].charge(job)
        known[job.owner].n_held += 1
    return known


def sorted_by_class(jobs: Iterable[WaitingJob]) -> list[WaitingJob]:
    """Interrupted ones first, then by priority, then as they were submitted. Sorting is stable, and a key in C takes
    a third of the time of one in Python."""
    found = sorted(jobs, key=attrgetter("number"))
    found.sort(key=attrgetter("is_interrupted", "priority"), reverse=True)
    return found


def classes(jobs: Iterable[WaitingJob], known: Mapping[str, Use]) -> Iterator[list[WaitingJob]]:
    """The jobs of each class (interrupted, then by priority), in order. The owner of a job that is given a
    place is charged for it, so that owners take turns by their weights."""
    for _, of_class in groupby(sorted_by_class(jobs), attrgetter("is_interrupted", "priority")):
        yield _by_turns(of_class, known)


def _by_turns(jobs: Iterable[WaitingJob], known: Mapping[str, Use]) -> list[WaitingJob]:
    """The owner with the least use goes first, and is charged. An owner's use only rises, so the turns are the jobs
    sorted by what their owners had used when each came to stand first among its owner's."""
    turns: list[tuple[float, int, WaitingJob]] = []
    for job in jobs:
        use = known[job.owner]
        turns.append((use.weighted, job.number, job))
        use.charge(job)
    turns.sort(key=itemgetter(0, 1))
    return [job for _, _, job in turns]
