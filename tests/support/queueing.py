"""Workers and jobs on which the scheduler's decision is played out, without processes."""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from warren_gateway.scheduling.decision import (
    Decision,
    HeldJob,
    OwnerShare,
    TrainerState,
    WaitingJob,
    decide,
)
from warren_schemas.ids import ModelId, RunId, WorkerId

BASE = "tiny"


def waiting_job(
    number: int,
    owner: str = "ada",
    *,
    base_model: str = BASE,
    is_full: bool = False,
    n_gpus: int = 1,
    memory_bytes: int | None = None,
    priority: int = 0,
    queued_s: float = 0.0,
    is_interrupted: bool = False,
    blocked_by: str | None = None,
) -> WaitingJob:
    return WaitingJob(
        model=ModelId(f"model_{number:05}"),
        run=RunId(f"run_{number:05}"),
        owner=owner,
        base_model=base_model,
        is_full=is_full,
        n_gpus=n_gpus,
        memory_bytes=memory_bytes,
        priority=priority,
        queued_s=queued_s,
        number=number,
        is_interrupted=is_interrupted,
        blocked_by=blocked_by,
    )


def held_job(job: WaitingJob, worker: str | None) -> HeldJob:
    return HeldJob(
        model=job.model,
        run=job.run,
        owner=job.owner,
        base_model=job.base_model,
        is_full=job.is_full,
        n_gpus=job.n_gpus,
        worker=None if worker is None else WorkerId(worker),
        since_s=0.0,
        memory_bytes=job.memory_bytes,
    )


def trainer_state(
    worker: str = "w1",
    *,
    base_models: Iterable[str] = (BASE,),
    may_load: Iterable[str] = (),
    loading: Iterable[str] = (),
    is_missed: bool = False,
    n_gpus: int = 1,
    max_models: int = 2,
    held: Iterable[WaitingJob] = (),
    is_draining: bool = False,
    free_memory_bytes: int | None = None,
    reserved_for: WaitingJob | None = None,
) -> TrainerState:
    held = tuple(held)
    return TrainerState(
        worker=WorkerId(worker),
        base_models=frozenset(base_models),
        may_load=frozenset(may_load),
        loading=frozenset(loading),
        is_missed=is_missed,
        n_gpus=n_gpus,
        max_models=max_models,
        held=tuple(job.model for job in held),
        is_full_held=any(job.is_full for job in held),
        is_draining=is_draining,
        free_memory_bytes=free_memory_bytes,
        reserved_for=reserved_for and reserved_for.model,
    )


@dataclass
class Site:
    """Workers that take what is admitted, as far as they may, and give it back when told."""

    trainers: list[TrainerState]
    owners: dict[str, OwnerShare] = field(default_factory=dict[str, OwnerShare])
    waiting: dict[ModelId, WaitingJob] = field(default_factory=dict[ModelId, WaitingJob])
    held: dict[ModelId, HeldJob] = field(default_factory=dict[ModelId, HeldJob])
    jobs: dict[ModelId, WaitingJob] = field(default_factory=dict[ModelId, WaitingJob])
    now_s: float = 0.0

    def submit(self, *jobs: WaitingJob) -> None:
        for job in jobs:
            self.waiting[job.model] = self.jobs[job.model] = job

    def states(self) -> list[TrainerState]:
        return [replace(room, **self._state(room)) for room in self.trainers]

    def _state(self, room: TrainerState) -> dict[str, object]:
        ours = [job for job in self.held.values() if job.worker == room.worker]
        return {
            "held": tuple(job.model for job in ours),
            "is_full_held": any(job.is_full for job in ours),
        }

    def decide(self) -> Decision:
        held = list(self.held.values())
        return decide(
            list(self.waiting.values()), held, self.states(), self.owners, now_s=self.now_s
        )

    def admit(self) -> Decision:
        """Decide, and let workers take what they may, until nothing is admitted and not taken."""
        decision = self.decide()
        for number, room in enumerate(self.trainers):
            self.trainers[number] = replace(
                room,
                reserved_for=decision.reserved.get(room.worker),
                base_models=frozenset({decision.load[room.worker]})
                if room.worker in decision.load
                else room.base_models,
            )
        for model in decision.admitted:
            self.held[model] = held_job(self.waiting.pop(model), None)
        for model, job in self.held.items():
            if job.worker is None and (worker := self._taker(job)) is not None:
                self.held[model] = replace(job, worker=worker)
        return decision

    def _taker(self, job: HeldJob) -> WorkerId | None:
        for room in self.states():
            is_for = room.reserved_for in (None, job.model) and job.base_model in room.base_models
            has_room = not room.held if job.is_whole else self._has_free_slot(room)
            if is_for and has_room and not room.is_draining and room.n_gpus >= job.n_gpus:
                return room.worker
        return None

    def _has_free_slot(self, room: TrainerState) -> bool:
        is_alone = any(self.held[model].is_whole for model in room.held)
        return not is_alone and len(room.held) < room.max_models

    def release(self, model: ModelId) -> None:
        del self.held[model]
