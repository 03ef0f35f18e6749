"""What trainers announce, as the policy reads it."""

from collections.abc import Mapping, Sequence

from warren_gateway.scheduling.policy import HeldJob, TrainerRoom
from warren_schemas.control import Heartbeat
from warren_schemas.ids import ModelId


def rooms(
    trainers: Sequence[Heartbeat], held: Sequence[HeldJob], reserved: Mapping[str, str]
) -> list[TrainerRoom]:
    """Of those that take jobs, or are drained: any other that offers nothing is not ready yet."""
    full = {job.model for job in held if job.is_full}
    known = [beat for beat in trainers if beat.offers or beat.drained_offers]
    return [_room(beat, full, reserved.get(beat.worker)) for beat in known]


def _room(beat: Heartbeat, full: set[ModelId], reserved: str | None) -> TrainerRoom:
    models = tuple(one.model for one in beat.models)
    return TrainerRoom(
        worker=beat.worker,
        base_models=frozenset(beat.drained_offers if beat.is_draining else beat.offers),
        may_load=False,
        n_gpus=beat.n_devices,
        max_models=beat.capacity,
        held=models,
        is_full_held=any(model in full for model in models),
        is_draining=beat.is_draining,
        free_memory_bytes=None,
        reserved_for=ModelId(reserved) if reserved else None,
    )
