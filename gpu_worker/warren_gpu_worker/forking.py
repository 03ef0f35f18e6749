"""How a GPU worker starts its children: on a CPU, by forks of one process that has imported torch and transformers.

Importing them takes most of a child's start, and a few hundred MB that forks share. A process on a GPU is started by a
command: libraries for GPUs may keep, from their import on, what a fork must not inherit.
"""

from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Protocol

from warren_broker.worker.child import Child
from warren_broker.worker.credentials import harmless_variables
from warren_broker.worker.forking.client import ForkServer
from warren_gpu_worker.settings import GpuWorkerSettings

_PROGRAMS = {
    "sampler": "warren_gpu_worker.sampler.child.main",
    "trainer": "warren_gpu_worker.trainer.child.main",
}
_LIBRARIES = (
    "transformers.models.auto.modeling_auto",
    "transformers.models.auto.tokenization_auto",
    "peft",
)
"""What the programs import when they load a model."""

_GPUS = (Path("/dev/nvidiactl"), Path("/dev/kfd"))
"""What a machine with GPUs has: those of NVIDIA, those of AMD."""


class SpawnChild(Protocol):
    """`Child.spawn`, or what is called like it. Raises `OSError`, `ChildDied`."""

    async def __call__(
        self,
        name: str,
        module: str,
        arguments: Sequence[str] = (),
        *,
        n_threads: int = 1,
        environment: Mapping[str, str] | None = None,
        log_path: Path | None = None,
    ) -> Child: ...


@asynccontextmanager
async def spawning(settings: GpuWorkerSettings) -> AsyncGenerator[SpawnChild]:
    """What starts the children of a worker with these settings."""
    if not is_surely_on_cpu(settings.device):
        yield Child.spawn
        return
    programs = sorted(_PROGRAMS[role] for role in settings.roles)
    threads = {"OMP_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false"}
    server = ForkServer([*programs, *_LIBRARIES], {**harmless_variables(), **threads})
    try:
        yield partial(Child.fork, server)
    finally:
        await server.close()


def is_surely_on_cpu(device: str) -> bool:
    """Asked without torch, which the supervisor does not import."""
    return device == "cpu" or (device == "auto" and not any(file.exists() for file in _GPUS))
