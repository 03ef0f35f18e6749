"""The sampling child of a model that is spread over several machines: it waits for the others, and ends with them."""

import os
from contextlib import suppress
from functools import partial

from warren_broker.worker.channel import Channel
from warren_gpu_worker.device_faults import DeviceFault, Fault
from warren_gpu_worker.sampler.engines.vllm.rendezvous import Place, gather
from warren_gpu_worker.sampler.messages import DeviceFailed, Gathering, pack
from warren_gpu_worker.settings import GpuWorkerSettings


def gather_machines(
    channel: Channel, settings: GpuWorkerSettings
) -> tuple[GpuWorkerSettings, Place]:
    """Return once all are there. From then on the loss of one is this process's last word. Raises `ValueError`, `OSError`."""
    gathered = gather(settings, lambda n_missing: channel.send(pack(Gathering(n_missing))))
    gathered.watch(partial(_end, channel))
    return gathered.settings, gathered.place


def _end(channel: Channel, reason: str) -> None:
    """Whatever the engine is doing: it may wait for that machine for ever."""
    with suppress(OSError):
        channel.send(pack(DeviceFailed(DeviceFault(Fault.MACHINE_LOST, reason))))
    os._exit(1)
