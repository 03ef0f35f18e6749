"""The ranks of a training process as their supervisor sees them: as one child.

Invariants: every rank is sent the same frames, in the same order; what the first one says is what
is heard; the death of one is the death of all. Only several ranks need a folder to meet in; its name says
whose it is, and one of a supervisor that was killed is removed by the next one.
"""

import asyncio
import logging
import os
import shutil
import tempfile
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Self

from warren_broker.worker.child import Child, ChildDied
from warren_gpu_worker.forking import SpawnChild
from warren_gpu_worker.settings import GpuWorkerSettings

CHILD_MODULE = "warren_gpu_worker.trainer.child.main"
ENVIRONMENT = {
    "CUBLAS_WORKSPACE_CONFIG": ":4096:8",  # torch's wish where kernels on a GPU are deterministic
    "GLOO_SOCKET_IFNAME": "lo",  # all ranks are on this machine
}
"""Of every rank, where ours has no other wish."""
_LAST_MOMENT_S = 3.0
_PREFIX = "warren-ranks-"

log = logging.getLogger(__name__)


class RankProcesses:
    """One task may send while another receives."""

    def __init__(
        self, meeting: Path, module: str = CHILD_MODULE, spawn_child: SpawnChild = Child.spawn
    ) -> None:
        self._meeting = meeting
        self._module = module
        self._spawn_child = spawn_child
        self._ranks: list[Child] = []
        self._watches: list[asyncio.Task[None]] = []
        self.last_words: list[bytes] = []
        """What other ranks than the first have said; complete after `close`."""

    @classmethod
    async def spawn(
        cls,
        name: str,
        settings: GpuWorkerSettings,
        *,
        module: str = CHILD_MODULE,
        spawn_child: SpawnChild = Child.spawn,
    ) -> Self:
        """Start `settings.devices` ranks, each of which runs `module`. Raises `OSError`, `ChildDied`."""
        ranks = cls(await asyncio.to_thread(_made, settings), module, spawn_child)
        try:
            for rank in range(settings.devices):
                ranks._ranks.append(await ranks._start(name, settings, rank))
        except BaseException:
            ranks.kill()
            await ranks.close()
            raise
        for child in ranks._ranks[1:]:
            ranks._watches.append(
                asyncio.create_task(ranks._watch(child), name=f"watch {child.name}")
            )
        return ranks

    async def _start(self, name: str, settings: GpuWorkerSettings, rank: int) -> Child:
        return await self._spawn_child(
            f"{name}, rank {rank}" if settings.devices > 1 else name,
            self._module,
            [settings.model_dump_json(), str(rank), str(self._meeting / "ranks")],
            n_threads=settings.n_threads,
            environment={k: v for k, v in ENVIRONMENT.items() if k not in os.environ},
            log_path=settings.log_path("trainer"),
        )

    async def _watch(self, child: Child) -> None:
        """Other ranks than the first say nothing but why they can't go on."""
        try:
            self.last_words.append(await child.receive())
        except ChildDied as death:
            log.error("%s; the other ranks go with it", death)
        self.kill()

    async def send(self, frame: bytes) -> None:
        """To all ranks; waits while one is far behind. Raises `ChildDied`."""
        for child in self._ranks:
            await child.send(frame)

    async def receive(self) -> bytes:
        """The first rank's next frame. Raises `ChildDied`."""
        return await self._ranks[0].receive()

    def kill(self) -> None:
        """End all ranks now."""
        for child in self._ranks:
            child.kill()

    async def close(self) -> None:
        """Hear what killed ranks still had to say, and reap them, each whatever others' end is like."""
        async with AsyncExitStack() as stack:
            stack.push_async_callback(_remove, self._meeting)
            for child in self._ranks:
                stack.push_async_callback(child.close)
            if self._watches:
                await asyncio.wait(self._watches, timeout=_LAST_MOMENT_S)
            for watch in self._watches:
                watch.cancel()


SpawnRanks = Callable[[str, GpuWorkerSettings], Awaitable[RankProcesses]]
"""Starts the ranks of a process of this name. Raises `OSError`, `ChildDied`."""


def _made(settings: GpuWorkerSettings) -> Path:
    """The folder of a meeting, where there are several ranks."""
    if settings.devices == 1:
        return Path(tempfile.gettempdir()) / f"{_PREFIX}none"
    for folder in Path(tempfile.gettempdir()).glob(f"{_PREFIX}[0-9]*"):
        if not _is_running(folder.name.removeprefix(_PREFIX).partition("-")[0]):
            shutil.rmtree(folder, ignore_errors=True)
    return Path(tempfile.mkdtemp(prefix=f"{_PREFIX}{os.getpid()}-"))


def _is_running(pid: str) -> bool:
    return pid.isdigit() and Path(f"/proc/{pid}").exists()


async def _remove(folder: Path) -> None:
    await asyncio.to_thread(shutil.rmtree, folder, ignore_errors=True)
