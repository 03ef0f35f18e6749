"""A machine that lends its devices to the trainer of another one: its ranks."""

from functools import partial

from warren_gpu_worker.machines.lending import lend
from warren_gpu_worker.settings import GpuWorkerSettings
from warren_gpu_worker.trainer.supervisor.rank_processes import RankProcesses, SpawnRanks


async def lend_devices(
    settings: GpuWorkerSettings, spawn_ranks: SpawnRanks = RankProcesses.spawn
) -> None:
    """Never returns (`lend`)."""
    await lend(partial(spawn_ranks, f"ranks for {settings.rendezvous}", settings))
