"""Walk through the waiting jobs in order, and give each what is left."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter

from warren_gateway.scheduling.decision import reasons
from warren_gateway.scheduling.decision.inputs import HeldJob, OwnerShare, TrainerState, WaitingJob
from warren_gateway.scheduling.decision.order import Use, classes, sorted_by_class, uses
from warren_gateway.scheduling.decision.outcome import Decision, Place
from warren_gateway.scheduling.decision.reserving import Reservations
from warren_gateway.scheduling.decision.workers import Workers, untaken
from warren_schemas.ids import ModelId

N_NEXT = 4
"""Jobs of a base model and kind that count as next: as many as may be admitted while one gets ready."""

_Needs = tuple[str, bool, int, int | None]
_needs: Callable[[WaitingJob], _Needs] = attrgetter(
    "base_model", "is_full", "n_gpus", "memory_bytes"
)


@dataclass(slots=True)
class _Kind:
    """Jobs of the same needs: what is so for one of them is so for all."""

    impossible: str | None
    """Why no end of another job would help."""
    is_small: bool
    """A worker that trains its base model takes it beside others."""
    is_in_vain: bool = False
    """It did not fit once, so it does not fit again until a worker is let go."""
    no_room: str | None = None
    """Why it waits; a sentence, made when it is first asked for."""


def decide(
    waiting: Sequence[WaitingJob],
    held: Sequence[HeldJob],
    trainers: Sequence[TrainerState],
    owners: Mapping[str, OwnerShare],
    *,
    sampled: Sequence[WaitingJob] = (),
    now_s: float,
) -> Decision:
    """`waiting`, `held` and `sampled` share no model; the last need no trainer, but samplers of their base model, which
    there are none of."""
    workers = Workers(trainers, held)
    walk = _Walk(workers, uses(waiting, held, trainers, owners), now_s)
    walk.count_untaken(untaken(trainers, held))
    able, unable = walk.divide(waiting)
    for of_class in classes(able, walk.uses):
        walk.go_through(of_class)
    walk.load_for(sampled)
    return Decision(
        admitted=tuple(walk.admitted),
        reserved={w.state.worker: w.kept_for for w in workers.active if w.kept_for is not None},
        load={w.state.worker: w.loads for w in workers.active if w.loads is not None},
        places=walk.places(unable),
        next=walk.next([job for job, _ in unable if job.blocked_by is None]),
    )


class _Walk:
    def __init__(self, workers: Workers, known: Mapping[str, Use], now_s: float) -> None:
        self.uses = known
        self.admitted: list[ModelId] = []
        self._workers = workers
        self._reservations = Reservations(workers, now_s)
        self._without_room: list[tuple[WaitingJob, _Kind]] = []
        self._at_quota: list[WaitingJob] = []
        self._kinds: dict[_Needs, _Kind] = {}

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
        for job in waiting:
            reason = self._kind_of(job).impossible or job.blocked_by
            if reason is None:
                able.append(job)
            else:
                unable.append((job, reason))
        return able, unable

    def go_through(self, jobs: Sequence[WaitingJob]) -> None:
        for job in self._reservations.had_one(jobs):
            if self._reservations.needs_one(job) and not self.uses[job.owner].is_at_quota:
                self._reservations.keep(job)
        for job in jobs:
            self._consider(job)

    def load_for(self, jobs: Sequence[WaitingJob]) -> None:
        """After those that wait for trainers."""
        for job in jobs:
            is_coming = self._workers.trains(job) or self._workers.loading(job) is not None
            if not is_coming and self._workers.may_load(job):
                self._reservations.keep(job)
                self._make_room(job)

    def _consider(self, job: WaitingJob) -> None:
        use = self.uses[job.owner]
        if use.is_at_quota:
            self._at_quota.append(job)
        elif self._may_fit(kind := self._kind_of(job), job) and self._workers.place(job):
            use.n_held += 1
            self.admitted.append(job.model)
        else:
            kind.is_in_vain = True
            self._without_room.append((job, kind))
            if kind.is_small:
                self._reservations.n_small_ahead[job.base_model] += 1
            else:
                self._make_room(job)

    def _may_fit(self, kind: _Kind, job: WaitingJob) -> bool:
        """A worker that is kept for this job is room that the others did not see."""
        return not kind.is_in_vain or self._reservations.kept_for(job) is not None

    def _make_room(self, job: WaitingJob) -> None:
        """For one that needs a worker to itself, or a worker that loads its base model."""
        loader = None if self._workers.trains(job) else self._workers.to_load(job)
        if loader is not None:
            loader.loads = job.base_model
        elif self._reservations.reserve(job):
            for kind in self._kinds.values():
                kind.is_in_vain = False

    def places(self, unable: Sequence[tuple[WaitingJob, str]]) -> dict[ModelId, Place]:
        found: dict[ModelId, Place] = {}
        n_own = dict.fromkeys(self.uses, 0)
        for n_ahead, (job, reason) in enumerate(self._left(unable)):
            ours = n_own[job.owner]
            found[job.model] = Place(n_ahead + 1, ours, n_ahead - ours, reason)
            n_own[job.owner] = ours + 1
        return found

    def _left(self, unable: Sequence[tuple[WaitingJob, str]]) -> Iterator[tuple[WaitingJob, str]]:
        """What was not admitted, those that are next first, with reasons."""
        kept_for = {w.reserved: w for w in self._workers.active if w.reserved is not None}
        for job, kind in self._without_room:
            worker = kept_for.get(job.model)
            yield job, reasons.kept(worker) if worker else self._no_room(job, kind)
        for job in self._at_quota:
            yield job, reasons.quota(self.uses[job.owner])
        sentence_of = {job.model: reason for job, reason in unable}
        for job in sorted_by_class(job for job, _ in unable):
            yield job, sentence_of[job.model]

    def next(self, unable: Sequence[WaitingJob]) -> tuple[ModelId, ...]:
        """The first of those that wait for room alone, or for a base model that is being loaded."""
        n_found: Counter[tuple[str, bool]] = Counter()
        found: list[ModelId] = []
        ours = [job for job, _ in self._without_room]
        for job in (*ours, *self._awaiting_load(unable)):
            kind = job.base_model, job.is_whole
            if n_found[kind] < N_NEXT:
                n_found[kind] += 1
                found.append(job.model)
        return tuple(found)

    def _awaiting_load(self, unable: Sequence[WaitingJob]) -> Iterator[WaitingJob]:
        known: dict[_Needs, bool] = {}
        for job in sorted_by_class(unable):
            if (needs := _needs(job)) not in known:
                known[needs] = self._workers.loading(job) is not None
            if known[needs]:
                yield job

    def _no_room(self, job: WaitingJob, kind: _Kind) -> str:
        if kind.no_room is None:
            kind.no_room = reasons.no_room(job, self._workers)
        return kind.no_room

    def _kind_of(self, job: WaitingJob) -> _Kind:
        needs = _needs(job)
        if (kind := self._kinds.get(needs)) is None:
            is_small = self._workers.trains(job) and not job.is_whole
            kind = _Kind(reasons.impossible(job, self._workers), is_small)
            self._kinds[needs] = kind
        return kind
