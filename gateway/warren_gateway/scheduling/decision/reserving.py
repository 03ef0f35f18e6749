"""Workers that are kept for a job which needs one to itself.

The worker with the fewest jobs takes no more until this one is in. How long jobs last nobody knows, so a
worker with fewer is the better guess; a reservation moves only to one with still fewer, which makes
progress certain: with each move and each release there is less to wait for.

A job reserves once all small ones ahead of it will find places elsewhere when what is held there ends;
or at all events after `RESERVES_AFTER_S`. At most a quarter of a base model's workers (or one) is emptied
at a time: their free places are idle meanwhile (`benchmarks/scheduling` says what that costs).
"""

from collections import Counter
from collections.abc import Iterable

from warren_gateway.scheduling.decision.inputs import HeldJob, WaitingJob
from warren_gateway.scheduling.decision.workers import Worker, Workers
from warren_schemas.ids import WorkerId

RESERVES_AFTER_S = 1800.0
EMPTIED_PART = 4


class Reservations:
    def __init__(self, workers: Workers, now_s: float) -> None:
        self._workers, self._now_s = workers, now_s
        self.n_small_ahead: Counter[str] = Counter()
        """Jobs of each base model that found no place."""
        self._in_vain: set[tuple[str, int, int | None, bool]] = set()
        self._kept = {w.state.reserved_for: w for w in workers.active if w.state.reserved_for}

    def had_one(self, jobs: Iterable[WaitingJob]) -> list[WaitingJob]:
        """Those that a worker was kept for by the last decision."""
        return [job for job in jobs if job.model in self._kept]

    def needs_one(self, job: WaitingJob | HeldJob) -> bool:
        return job.is_whole or not self._workers.trains(job)

    def keep(self, job: WaitingJob) -> None:
        """What the last decision gave this job is still its own."""
        kept = self._kept.get(job.model)
        if kept in self._candidates_of(job) and self._is_candidate(kept, job):
            kept.reserved = job.model

    def kept_for(self, job: WaitingJob) -> Worker | None:
        kept = self._kept.get(job.model)
        return kept if kept is not None and kept.reserved == job.model else None

    def reserve(self, job: WaitingJob) -> bool:
        """Keep a worker for a job that found none empty; True if another one was let go for it."""
        kept = self.kept_for(job)
        if kept is None and not self._may_reserve(job):
            return False
        best = self._soonest(job, kept)
        if best is None or best is kept:
            return False
        best.reserved = job.model
        if kept is not None:
            kept.reserved = None
        return kept is not None

    def reserve_at_once(self, job: HeldJob) -> None:
        """The same for one that was admitted and lost its room to another message."""
        if (best := self._soonest(job, self._kept.get(job.model))) is not None:
            best.reserved = job.model

    def _may_reserve(self, job: WaitingJob) -> bool:
        is_overdue = self._now_s - job.queued_s >= RESERVES_AFTER_S
        needs = (job.base_model, job.n_gpus, job.memory_bytes, is_overdue)
        if needs in self._in_vain:
            return False
        may = self._is_below_limit(job) and (is_overdue or self._leaves_enough(job))
        if not may:
            self._in_vain.add(needs)
        return may

    def _is_below_limit(self, job: WaitingJob) -> bool:
        ours = self._candidates_of(job)
        n_emptied = sum(w.reserved is not None and w.n_held > w.n_taken for w in ours)
        return n_emptied < max(1, len(ours) // EMPTIED_PART)

    def _leaves_enough(self, job: WaitingJob) -> bool:
        best = self._soonest(job, None)
        if best is None:
            return False
        for base in best.state.base_models:
            elsewhere = sum(w.n_slots for w in self._workers.of_base[base] if w is not best)
            if self.n_small_ahead[base] > elsewhere:
                return False
        return True

    def _candidates_of(self, job: WaitingJob | HeldJob) -> list[Worker]:
        if self._workers.trains(job):
            return self._workers.of_base[job.base_model]
        return [worker for worker in self._workers.may_load(job) if not worker.state.is_missed]

    def _soonest(self, job: WaitingJob | HeldJob, kept: Worker | None) -> Worker | None:
        def to_wait_for(worker: Worker) -> tuple[int, bool, WorkerId]:
            return worker.n_held, worker is not kept, worker.state.worker

        able = (w for w in self._candidates_of(job) if self._is_candidate(w, job))
        return min(able, key=to_wait_for, default=None)

    def _is_candidate(self, worker: Worker, job: WaitingJob | HeldJob) -> bool:
        """An occupied one is not: it takes no small jobs anyway, and is decided about once it is free."""
        if worker.is_whole or worker.loads not in (None, job.base_model):
            return False
        is_large_enough = worker.state.n_gpus >= job.n_gpus
        fits = worker.fits(job) or not worker.is_empty
        return is_large_enough and fits and worker.is_open_to(job.model)
