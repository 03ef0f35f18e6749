"""Heartbeats of a trainer."""

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
class TrainerStatus:
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


def trainer_heartbeat(
    worker: WorkerId, reloading: Reloading, draining: Draining, status: TrainerStatus
) -> Heartbeat:
    settings, told = reloading.settings, reloading.told
    bases = tuple(settings.base_models)
    is_offered = status.is_open and not draining.is_draining and told is None
    loading = () if status.is_ready else bases
    return Heartbeat(
        envelope=Envelope(),
        worker=worker,
        role=WorkerRole.TRAINER,
        offers=bases if is_offered else (),
        drained_offers=bases if status.is_open and draining.is_draining else (),
        loading=loading if told is None else (told,),
        may_load=() if draining.is_draining else reloading.may_load,
        cannot_load=reloading.cannot_load,
        interval_s=INTERVAL_S,
        capacity=status.capacity,
        n_devices=settings.n_ranks,
        in_flight=len(status.models) + status.n_kept,
        n_done=status.n_done,
        without_disk_space=tuple(sorted(status.without_disk_space)),
        kept_for=status.kept_for,
        models=status.models,
        is_draining=draining.is_draining,
        host=socket.gethostname(),
        pid=os.getpid(),
        is_leaving=status.is_leaving,
    )
