"""The order in which jobs have a claim to room."""

import heapq
from collections.abc import Iterable, Iterator, Mapping
from itertools import groupby

from warren_gateway.scheduling.policy.inputs import HeldJob, OwnerShare, TrainerState, WaitingJob

HELD_S = 3600.0
"""A job that is held, or ahead in the order, counts for its owner as so many seconds of what it holds."""
LEAST_WEIGHT = 1e-9


class Use:
    """The use of one owner. GPUs are counted in whole numbers, so that no order of adding matters."""

    __slots__ = ("_n_slots", "_share", "n_gpus_shared", "n_gpus_whole", "n_held")

    def __init__(self, share: OwnerShare, n_slots: int) -> None:
        self._share, self._n_slots = share, n_slots
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
        return (self._share.used_gpu_s + HELD_S * n_gpus) / max(self._share.weight, LEAST_WEIGHT)

    @property
    def most_held(self) -> int | None:
        return self._share.most_held

    @property
    def is_at_quota(self) -> bool:
        return self._share.most_held is not None and self.n_held >= self._share.most_held


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
    return sorted(jobs, key=lambda job: (not job.is_interrupted, -job.priority, job.number))


def classes(jobs: Iterable[WaitingJob], known: Mapping[str, Use]) -> Iterator[list[WaitingJob]]:
    """The jobs of each class (interrupted, then by priority), in order. Whom a job is given a place
    is charged for it, so that owners take turns by their weights."""
    by_class = groupby(sorted_by_class(jobs), lambda job: (job.is_interrupted, job.priority))
    for _, of_class in by_class:
        yield list(_by_turns(of_class, known))


def _by_turns(jobs: Iterable[WaitingJob], known: Mapping[str, Use]) -> Iterator[WaitingJob]:
    queues: dict[str, list[WaitingJob]] = {}
    for job in jobs:
        queues.setdefault(job.owner, []).append(job)
    for queue in queues.values():
        queue.reverse()
    turns = [(known[owner].weighted, queue[-1].number, owner) for owner, queue in queues.items()]
    heapq.heapify(turns)
    while turns:
        owner = turns[0][2]
        queue, use = queues[owner], known[owner]
        job = queue.pop()
        use.charge(job)
        yield job
        if queue:
            heapq.heapreplace(turns, (use.weighted, queue[-1].number, owner))
        else:
            heapq.heappop(turns)
