"""The sampling child of a model that is spread over several machines: it waits for the others, and ends with them."""

import os
from contextlib import suppress
from functools import partial

from warren_broker.worker.channel import Channel
from warren_gpu_worker.device_faults import DeviceFault, Fault
from warren_gpu_worker.sampler.engines.start_failures import start_failure
from warren_gpu_worker.sampler.engines.vllm.rendezvous import Gathered, MachineLost, gather
from warren_gpu_worker.sampler.messages import Broken, DeviceFailed, Gathering, pack
from warren_gpu_worker.settings import GpuWorkerSettings

LAST_MOMENT_S = 3.0
"""From an error of vLLM, which waits for another machine, to the end of the connection to that one, at most: both are signs of
the same loss."""


def gather_machines(channel: Channel, settings: GpuWorkerSettings) -> Gathered:
    """Return once all are there. From then on the loss of one is this process's last word.

    Raises `MachineLost`, `ValueError`, `OSError`.
    """
    gathered = gather(settings, lambda n_missing: channel.send(pack(Gathering(n_missing))))
    gathered.watch(partial(_end, channel))
    return gathered


def why_not_started(
    error: Exception, gathered: Gathered | None, *, within_s: float = LAST_MOMENT_S
) -> Broken | DeviceFailed:
    """The last word of a child that this error kept from starting.

    vLLM fails here as well where a machine is lost, and says so sooner than the connection to that one ends. That is no
    reason to give the model up: a machine that is gone `within_s` of the error is the cause.
    """
    if isinstance(error, MachineLost):
        return _lost(str(error))
    if gathered is not None and (lost := gathered.lost(within_s)) is not None:
        return _lost(f"{lost}; here {start_failure(error)}")
    return Broken(start_failure(error))


def _lost(reason: str) -> DeviceFailed:
    return DeviceFailed(DeviceFault(Fault.MACHINE_LOST, reason))


def _end(channel: Channel, reason: str) -> None:
    """Whatever the engine is doing: it may wait for that machine for ever."""
    with suppress(OSError):
        channel.send(pack(_lost(reason)))
    os._exit(1)
