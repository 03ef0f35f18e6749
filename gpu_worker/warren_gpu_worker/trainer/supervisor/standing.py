"""What a trainer says of itself in its heartbeats."""

import os
import socket
from dataclasses import dataclass

from warren_broker.worker.draining import Draining
from warren_broker.worker.heartbeat import INTERVAL_S
from warren_gpu_worker.reloading import Reloading
from warren_schemas.control import Heartbeat, HeldModel, WorkerRole
from warren_schemas.envelope import Envelope
from warren_schemas.ids import ModelId, WorkerId


@dataclass(frozen=True, slots=True)
class Standing:
    is_open: bool
    """Grants reach it, and its child has loaded the base models."""
    is_ready: bool
    """The child has."""
    models: tuple[HeldModel, ...]
    n_kept: int
    """Jobs that it keeps room for."""
    capacity: int
    n_done: int
    without_disk_space: frozenset[ModelId]
    kept_for: ModelId | None
    is_leaving: bool


def describe(
    worker: WorkerId, reloading: Reloading, draining: Draining, standing: Standing
) -> Heartbeat:
    settings, told = reloading.settings, reloading.told
    bases = tuple(settings.base_models)
    is_offered = standing.is_open and not draining.is_draining and told is None
    loading = () if standing.is_ready else bases
    return Heartbeat(
        envelope=Envelope(),
        worker=worker,
        role=WorkerRole.TRAINER,
        offers=bases if is_offered else (),
        drained_offers=bases if standing.is_open and draining.is_draining else (),
        loading=loading if told is None else (told,),
        may_load=() if draining.is_draining else reloading.may_load,
        cannot_load=reloading.cannot_load,
        interval_s=INTERVAL_S,
        capacity=standing.capacity,
        n_devices=settings.n_ranks,
        in_flight=len(standing.models) + standing.n_kept,
        n_done=standing.n_done,
        without_disk_space=tuple(sorted(standing.without_disk_space)),
        kept_for=standing.kept_for,
        models=standing.models,
        is_draining=draining.is_draining,
        host=socket.gethostname(),
        pid=os.getpid(),
        is_leaving=standing.is_leaving,
    )
