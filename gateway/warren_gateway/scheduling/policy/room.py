"""The workers as they would be with what was decided so far.

Small jobs are packed: which worker takes a message is not ours to say, but what is admitted must fit,
and whole workers stay free for those who need them.
"""

from collections.abc import Iterable, Sequence

from warren_gateway.scheduling.policy.inputs import HeldJob, TrainerRoom, WaitingJob
from warren_schemas.ids import ModelId, WorkerId

Job = WaitingJob | HeldJob


class Worker:
    __slots__ = ("free_bytes", "is_whole", "loads", "n_held", "n_taken", "reserved", "room")

    def __init__(self, room: TrainerRoom, held: Sequence[HeldJob]) -> None:
        self.room = room
        self.n_held = len({*room.held, *(job.model for job in held)})
        self.n_taken = 0
        self.is_whole = room.is_full_held or any(job.is_whole for job in held)
        self.free_bytes = room.free_memory_bytes
        self.reserved: ModelId | None = None
        self.loads: str | None = None

    @property
    def kept_for(self) -> ModelId | None:
        """Whom the worker is to wait for. Small jobs that were admitted and have their place here come
        first: told too early, it would refuse them, and wait for ever."""
        return self.reserved if self.is_whole or self.n_taken == 0 else None

    def may_load(self, base: str) -> bool:
        return base in self.room.may_load and not self.room.loading

    @property
    def is_empty(self) -> bool:
        return self.n_held == 0

    @property
    def n_places(self) -> int:
        """For small jobs, when none is held."""
        return 0 if self.is_whole or self.reserved is not None else self.room.max_models

    def has_place(self) -> bool:
        is_ours = self.loads is not None or self.is_whole
        return not is_ours and self.n_held < self.room.max_models

    def fits(self, job: Job) -> bool:
        if job.n_gpus > self.room.n_gpus:
            return False
        asked, free = job.memory_bytes, self.free_bytes
        return asked is None or free is None or asked <= free

    def is_open_to(self, model: ModelId) -> bool:
        return self.reserved is None or self.reserved == model

    def take(self, job: Job) -> None:
        self.n_held, self.n_taken = self.n_held + 1, self.n_taken + 1
        self.is_whole = job.is_whole
        if self.free_bytes is not None and job.memory_bytes is not None:
            self.free_bytes -= job.memory_bytes
        if job.is_whole:
            self.reserved = job.model
        elif self.reserved == job.model:
            self.reserved = None


class Workers:
    """All of them, and those that serve each base model (none that is being drained)."""

    def __init__(self, rooms: Iterable[TrainerRoom], held: Iterable[HeldJob]) -> None:
        rooms = sorted(rooms, key=lambda room: room.worker)
        by_worker = _located(rooms, held)
        every = [Worker(room, by_worker[room.worker]) for room in rooms]
        self.active = [worker for worker in every if not worker.room.is_draining]
        self._drained = [worker.room for worker in every if worker.room.is_draining]
        self.loading = {base: w.room.worker for w in self.active for base in w.room.loading}
        self.of_base: dict[str, list[Worker]] = {}
        for worker in self.active:
            for base in worker.room.base_models:
                self.of_base.setdefault(base, []).append(worker)
        self._with_place = {base: _packing(ours) for base, ours in self.of_base.items()}

    def place(self, job: Job) -> bool:
        """Give the job a place, if one is free."""
        found = self._empty_one(job) if job.is_whole else self._with_free_place(job)
        if found is not None:
            found.take(job)
        return found is not None

    def drained_for(self, job: Job) -> WorkerId | None:
        """The first worker that could train the job if it were not drained."""
        able = (r for r in self._drained if job.base_model in r.base_models)
        return next((r.worker for r in able if r.n_gpus >= job.n_gpus), None)

    def _with_free_place(self, job: Job) -> Worker | None:
        ours = self._with_place.get(job.base_model, [])
        while ours and not ours[-1].has_place():
            ours.pop()
        for worker in reversed(ours):
            if worker.has_place() and worker.is_open_to(job.model) and worker.fits(job):
                return worker
        return None

    def _empty_one(self, job: Job) -> Worker | None:
        able = (
            worker
            for worker in self.of_base.get(job.base_model, [])
            if worker.is_empty
            and worker.loads is None
            and worker.is_open_to(job.model)
            and worker.fits(job)
        )
        return min(able, key=lambda worker: _snugness(worker, job.model), default=None)

    def to_load(self, job: WaitingJob) -> Worker | None:
        """An idle worker that may load the job's base model, or is told to already."""
        able = (
            worker
            for worker in self.active
            if worker.may_load(job.base_model)
            and worker.is_empty
            and not worker.room.is_missed
            and worker.loads in (None, job.base_model)
            and worker.is_open_to(job.model)
            and worker.fits(job)
        )
        return min(able, key=lambda w: (w.loads is None, _snugness(w, job.model)), default=None)


def _located(
    rooms: Sequence[TrainerRoom], held: Iterable[HeldJob]
) -> dict[WorkerId, list[HeldJob]]:
    """The jobs of each worker, by the store or by what the worker says."""
    listed = {model: room.worker for room in rooms for model in room.held}
    found: dict[WorkerId, list[HeldJob]] = {room.worker: [] for room in rooms}
    for job in held:
        worker = job.worker or listed.get(job.model)
        if worker is not None and worker in found:
            found[worker].append(job)
    return found


def untaken(rooms: Sequence[TrainerRoom], held: Iterable[HeldJob]) -> list[HeldJob]:
    """Admitted jobs that no worker has, those that need a whole one first."""
    listed = {model for room in rooms for model in room.held}
    ours = [job for job in held if job.worker is None and job.model not in listed]
    return sorted(ours, key=lambda job: (not job.is_whole, job.since_s, job.model))


def _packing(workers: Sequence[Worker]) -> list[Worker]:
    """The best place for a small job last: not where a reservation was, not where other base models
    are served, and where most places are taken."""

    def burden(worker: Worker) -> tuple[bool, int, int]:
        room = worker.room
        return room.reserved_for is not None, len(room.base_models), -worker.n_held

    return sorted(workers, key=burden)[::-1]


def _snugness(worker: Worker, model: ModelId) -> tuple[bool, int, int, WorkerId]:
    room = worker.room
    return room.reserved_for != model, room.n_gpus, len(room.base_models), room.worker
