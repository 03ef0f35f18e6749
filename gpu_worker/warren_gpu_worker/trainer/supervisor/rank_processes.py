"""The ranks of a training process as their supervisor sees them: as one child.

One rank alone is that child. Several are started by torchrun's agent (`launching/agent`), one agent on
each machine; the agent of this machine is the child then, and the first rank speaks in its place.

Invariants: the death of one rank is the death of all; what a rank that has no memory for an op says last
is heard, whatever machine it is on.
"""

import os
from collections.abc import Awaitable, Callable
from typing import Self

from warren_broker.worker.child import Child
from warren_gpu_worker.forking import SpawnChild
from warren_gpu_worker.settings import GpuWorkerSettings

CHILD_MODULE = "warren_gpu_worker.trainer.child.main"
AGENT_MODULE = "warren_gpu_worker.trainer.launching.agent"
ENVIRONMENT = {
    "CUBLAS_WORKSPACE_CONFIG": ":4096:8",  # torch asks for it where kernels on a GPU are deterministic
    "TORCH_CPP_LOG_LEVEL": "ERROR",  # a connection that was closed comes with a stack of addresses
}
"""Of every rank, where ours has no other value."""


class RankProcesses:
    """One task may send while another receives."""

    def __init__(self, child: Child) -> None:
        self._child = child

    @classmethod
    async def spawn(
        cls,
        name: str,
        settings: GpuWorkerSettings,
        *,
        module: str = CHILD_MODULE,
        spawn_child: SpawnChild = Child.spawn,
    ) -> Self:
        """Start this machine's ranks; one alone runs `module`. Raises `OSError`, `ChildDied`."""
        child = await spawn_child(
            name,
            module if settings.n_ranks == 1 else AGENT_MODULE,
            [settings.model_dump_json()],
            n_threads=settings.n_threads,
            environment={k: v for k, v in ENVIRONMENT.items() if k not in os.environ},
            log_path=settings.log_path("trainer"),
        )
        return cls(child)

    async def send(self, frame: bytes) -> None:
        """To all ranks; waits while the first one is far behind. Raises `ChildDied`."""
        await self._child.send(frame)

    async def receive(self) -> bytes:
        """The next frame. Raises `ChildDied`."""
        return await self._child.receive()

    def kill(self) -> None:
        """End all ranks of this machine now; those of others follow."""
        self._child.kill()

    async def close(self) -> None:
        await self._child.close()


SpawnRanks = Callable[[str, GpuWorkerSettings], Awaitable[RankProcesses]]
"""Starts the ranks of a process of this name. Raises `OSError`, `ChildDied`."""
