"""What trainers announce, as the policy reads it."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from warren_gateway.scheduling.decision import HeldJob, TrainerState
from warren_gateway.scheduling.loading import InUse, Told, spared
from warren_schemas.control import Heartbeat, WorkerRole
from warren_schemas.ids import ModelId, WorkerId


def trainer_states(
    workers: Sequence[Heartbeat],
    held: Sequence[HeldJob],
    reserved: Mapping[str, str],
    used: InUse,
    away: Mapping[WorkerId, Told],
    closing: Collection[ModelId] = (),
) -> list[TrainerState]:
    """Of trainers that take jobs, load something or are drained, and of those that are `away` to load something; without
    models that are `closing`."""
    full = {job.model for job in held if job.is_full}
    trainers = [beat for beat in workers if beat.role is WorkerRole.TRAINER]
    known = [beat for beat in trainers if beat.offers or beat.loading or beat.drained_offers]
    found = [_state(beat, full, closing, reserved.get(beat.worker)) for beat in known]
    missed = {b.worker for b in known if b.may_load and not spared(b, workers, used)}
    found = [replace(state, is_missed=state.worker in missed) for state in found]
    return found + [_coming(worker, told) for worker, told in away.items()]


def _coming(worker: WorkerId, told: Told) -> TrainerState:
    return TrainerState(
        worker=worker,
        base_models=frozenset(),
        may_load=frozenset(),
        loading=frozenset({told.base}),
        n_gpus=told.n_gpus,
        max_models=0,
        held=(),
        is_full_held=False,
        is_draining=False,
        free_memory_bytes=None,
    )


def _state(
    beat: Heartbeat, full: set[ModelId], closing: Collection[ModelId], reserved: str | None
) -> TrainerState:
    models = tuple(one.model for one in beat.models if one.model not in closing)
    return TrainerState(
        worker=beat.worker,
        base_models=frozenset(beat.drained_offers if beat.is_draining else beat.offers),
        may_load=frozenset(beat.may_load),
        cannot_load={one.base_model: one.reason for one in beat.cannot_load},
        loading=frozenset(beat.loading),
        n_gpus=beat.n_devices,
        max_models=beat.capacity,
        held=models,
        is_full_held=any(model in full for model in models),
        is_draining=beat.is_draining,
        free_memory_bytes=None,
        reserved_for=ModelId(reserved) if reserved else None,
    )
