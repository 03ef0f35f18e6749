"""The workers as they would be with what was decided so far.

Small jobs are packed: which worker takes a message is not ours to say, but what is admitted must fit,
and whole workers stay free for those who need them.
"""

from collections.abc import Iterable, Sequence

from warren_gateway.scheduling.decision.inputs import HeldJob, TrainerState, WaitingJob
from warren_schemas.ids import ModelId, WorkerId
from warren_schemas.text.patterns import names_one

Job = WaitingJob | HeldJob


class Worker:
    __slots__ = ("free_bytes", "is_whole", "loads", "n_held", "n_taken", "reserved", "state")

    def __init__(self, state: TrainerState, held: Sequence[HeldJob]) -> None:
        self.state = state
        self.n_held = len({*state.held, *(job.model for job in held)})
        self.n_taken = 0
        self.is_whole = state.is_full_held or any(job.is_whole for job in held)
        self.free_bytes = state.free_memory_bytes
        self.reserved: ModelId | None = None
        self.loads: str | None = None

    @property
    def kept_for(self) -> ModelId | None:
        """Whom the worker is to wait for. Small jobs that were admitted and have their place here come
        first: told too early, it would refuse them, and wait for ever."""
        return self.reserved if self.is_whole or self.n_taken == 0 else None

    def may_load(self, base: str) -> bool:
        state = self.state
        is_out = state.loading or base in state.base_models or base in state.cannot_load
        return not is_out and names_one(state.may_load, base)

    @property
    def is_empty(self) -> bool:
        return self.n_held == 0

    @property
    def n_slots(self) -> int:
        """For small jobs, when none is held."""
        return 0 if self.is_whole or self.reserved is not None else self.state.max_models

    def has_free_slot(self) -> bool:
        is_ours = self.loads is not None or self.is_whole
        return not is_ours and self.n_held < self.state.max_models

    def fits(self, job: Job) -> bool:
        if job.n_gpus > self.state.n_gpus:
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

    def __init__(self, states: Iterable[TrainerState], held: Iterable[HeldJob]) -> None:
        states = sorted(states, key=lambda state: state.worker)
        by_worker = _located(states, held)
        every = [Worker(state, by_worker[state.worker]) for state in states]
        self.active = [worker for worker in every if not worker.state.is_draining]
        self._drained = [worker.state for worker in every if worker.state.is_draining]
        self.of_base: dict[str, list[Worker]] = {}
        for worker in self.active:
            for base in worker.state.base_models:
                self.of_base.setdefault(base, []).append(worker)
        self._most_gpus = {
            base: max(worker.state.n_gpus for worker in ours) for base, ours in self.of_base.items()
        }
        self._loaders: dict[str, list[Worker]] = {}
        self._by_free_slots = {base: _packing(ours) for base, ours in self.of_base.items()}

    def place(self, job: Job) -> bool:
        """Give the job a place, if one is free."""
        found = self._empty_one(job) if job.is_whole else self._with_free_slot(job)
        if found is not None:
            found.take(job)
        return found is not None

    def trains(self, job: Job) -> bool:
        """Whether one that has the base model has the GPUs, so that nobody else is to load it."""
        return job.n_gpus <= self._most_gpus.get(job.base_model, 0)

    def may_load(self, job: Job) -> list[Worker]:
        """Those with enough GPUs."""
        able = self.loaders(job.base_model)
        return [worker for worker in able if worker.state.n_gpus >= job.n_gpus]

    def loaders(self, base: str) -> list[Worker]:
        if base not in self._loaders:
            self._loaders[base] = [worker for worker in self.active if worker.may_load(base)]
        return self._loaders[base]

    def loading(self, job: Job) -> WorkerId | None:
        """Who is on its way to train the job's base model, and has the GPUs."""
        able = (w.state for w in self.active if job.base_model in w.state.loading)
        return next((state.worker for state in able if state.n_gpus >= job.n_gpus), None)

    def drained_for(self, job: Job) -> WorkerId | None:
        """The first worker that could train the job if it were not drained."""
        able = (r for r in self._drained if job.base_model in r.base_models)
        return next((r.worker for r in able if r.n_gpus >= job.n_gpus), None)

    def _with_free_slot(self, job: Job) -> Worker | None:
        ours = self._by_free_slots.get(job.base_model, [])
        while ours and not ours[-1].has_free_slot():
            ours.pop()
        for worker in reversed(ours):
            if worker.has_free_slot() and worker.is_open_to(job.model) and worker.fits(job):
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
            for worker in self.may_load(job)
            if worker.is_empty
            and not worker.state.is_missed
            and worker.loads in (None, job.base_model)
            and worker.is_open_to(job.model)
            and worker.fits(job)
        )
        return min(able, key=lambda w: (w.loads is None, _snugness(w, job.model)), default=None)


def _located(
    states: Sequence[TrainerState], held: Iterable[HeldJob]
) -> dict[WorkerId, list[HeldJob]]:
    """The jobs of each worker, by the store or by what the worker says."""
    listed = {model: state.worker for state in states for model in state.held}
    found: dict[WorkerId, list[HeldJob]] = {state.worker: [] for state in states}
    for job in held:
        worker = job.worker or listed.get(job.model)
        if worker is not None and worker in found:
            found[worker].append(job)
    return found


def untaken(states: Sequence[TrainerState], held: Iterable[HeldJob]) -> list[HeldJob]:
    """Admitted jobs that no worker has, those that need a whole one first."""
    listed = {model for state in states for model in state.held}
    ours = [job for job in held if job.worker is None and job.model not in listed]
    return sorted(ours, key=lambda job: (not job.is_whole, job.since_s, job.model))


def _packing(workers: Sequence[Worker]) -> list[Worker]:
    """The best place for a small job last: not where a reservation was, not where other base models
    are served, and where most places are taken."""

    def burden(worker: Worker) -> tuple[bool, int, int]:
        state = worker.state
        return state.reserved_for is not None, len(state.base_models), -worker.n_held

    return sorted(workers, key=burden)[::-1]


def _snugness(worker: Worker, model: ModelId) -> tuple[bool, int, int, WorkerId]:
    state = worker.state
    return state.reserved_for != model, state.n_gpus, len(state.base_models), state.worker
