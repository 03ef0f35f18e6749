"""Walk through the waiting jobs in order, and give each what is left."""

from collections import Counter
from collections.abc import Mapping, Sequence

from warren_gateway.scheduling.policy import reasons
from warren_gateway.scheduling.policy.inputs import HeldJob, OwnerShare, TrainerState, WaitingJob
from warren_gateway.scheduling.policy.order import Use, classes, sorted_by_class, uses
from warren_gateway.scheduling.policy.outcome import Decision, Place
from warren_gateway.scheduling.policy.reserving import Reservations
from warren_gateway.scheduling.policy.workers import Workers, untaken
from warren_schemas.ids import ModelId

_Needs = tuple[str, bool, int, int | None]


def decide(
    waiting: Sequence[WaitingJob],
    held: Sequence[HeldJob],
    trainers: Sequence[TrainerState],
    owners: Mapping[str, OwnerShare],
    *,
    now_s: float,
) -> Decision:
    """`waiting` and `held` share no model."""
    workers = Workers(trainers, held)
    walk = _Walk(workers, uses(waiting, held, trainers, owners), now_s)
    walk.count_untaken(untaken(trainers, held))
    able, unable = walk.divide(waiting)
    for of_class in classes(able, walk.uses):
        walk.go_through(of_class)
    return Decision(
        admitted=tuple(walk.admitted),
        reserved={w.state.worker: w.kept_for for w in workers.active if w.kept_for is not None},
        load={w.state.worker: w.loads for w in workers.active if w.loads is not None},
        places=walk.places(unable),
    )


class _Walk:
    def __init__(self, workers: Workers, known: Mapping[str, Use], now_s: float) -> None:
        self.uses = known
        self.admitted: list[ModelId] = []
        self._workers = workers
        self._reservations = Reservations(workers, now_s)
        self._without_room: list[WaitingJob] = []
        self._at_quota: list[WaitingJob] = []
        self._in_vain: set[_Needs] = set()
        """What did not fit once does not fit again, until a worker is let go."""

    def count_untaken(self, jobs: Sequence[HeldJob]) -> None:
        """Admitted jobs have the first claim."""
        for job in jobs:
            if not self._workers.place(job) and job.is_whole:
                self._reservations.reserve_at_once(job)

    def divide(
        self, waiting: Sequence[WaitingJob]
    ) -> tuple[list[WaitingJob], list[tuple[WaitingJob, str]]]:
        """Jobs that wait for room alone, and the others with their reasons."""
        able: list[WaitingJob] = []
        unable: list[tuple[WaitingJob, str]] = []
        known: dict[_Needs, str | None] = {}
        for job in waiting:
            needs = _needs(job)
            if needs not in known:
                known[needs] = reasons.impossible(job, self._workers)
            reason = known[needs] or job.blocked_by
            if reason is None:
                able.append(job)
            else:
                unable.append((job, reason))
        return able, unable

    def go_through(self, jobs: Sequence[WaitingJob]) -> None:
        for job in jobs:
            if self._reservations.needs_one(job) and not self.uses[job.owner].is_at_quota:
                self._reservations.keep(job)
        for job in jobs:
            self._consider(job)

    def _consider(self, job: WaitingJob) -> None:
        use = self.uses[job.owner]
        if use.is_at_quota:
            self._at_quota.append(job)
        elif self._has_free_slot(job):
            use.n_held += 1
            self.admitted.append(job.model)
        else:
            self._without_room.append(job)
            self._make_room(job)

    def _has_free_slot(self, job: WaitingJob) -> bool:
        needs = _needs(job)
        if needs in self._in_vain:
            return self._has_own(job) and self._workers.place(job)
        if self._workers.place(job):
            return True
        self._in_vain.add(needs)
        return False

    def _has_own(self, job: WaitingJob) -> bool:
        """One that is kept for this job is room that the others did not see."""
        return self._reservations.kept_for(job) is not None

    def _make_room(self, job: WaitingJob) -> None:
        if not self._workers.trains(job):
            if (worker := self._workers.to_load(job)) is not None:
                worker.loads = job.base_model
            else:
                self._reserve(job)
        elif job.is_whole:
            self._reserve(job)
        else:
            self._reservations.n_small_ahead[job.base_model] += 1

    def _reserve(self, job: WaitingJob) -> None:
        if self._reservations.reserve(job):
            self._in_vain.clear()

    def places(self, unable: Sequence[tuple[WaitingJob, str]]) -> dict[ModelId, Place]:
        sentence_of = {job.model: reason for job, reason in unable}
        last = sorted_by_class(job for job, _ in unable)
        found: dict[ModelId, Place] = {}
        n_own: Counter[str] = Counter()
        kept_for = {w.reserved: w for w in self._workers.active if w.reserved is not None}
        known: dict[_Needs, str] = {}
        for number, job in enumerate((*self._without_room, *self._at_quota, *last)):
            model, ours = job.model, n_own[job.owner]
            reason = sentence_of.get(model)
            if reason is None and number < len(self._without_room):
                worker = kept_for.get(model)
                reason = reasons.kept(worker) if worker else self._sentence(job, known)
            elif reason is None:
                reason = reasons.quota(self.uses[job.owner])
            found[model] = Place(number + 1, ours, number - ours, reason)
            n_own[job.owner] = ours + 1
        return found

    def _sentence(self, job: WaitingJob, known: dict[_Needs, str]) -> str:
        needs = _needs(job)
        if needs not in known:
            known[needs] = reasons.no_room(job, self._workers)
        return known[needs]


def _needs(job: WaitingJob) -> _Needs:
    return job.base_model, job.is_full, job.n_gpus, job.memory_bytes
