"""A machine that joins the trainer of another one: its ranks."""

from functools import partial

from warren_gpu_worker.machines.joining import stay_joined
from warren_gpu_worker.settings import GpuWorkerSettings
from warren_gpu_worker.trainer.supervisor.rank_processes import RankProcesses, SpawnRanks


async def join_trainer(
    settings: GpuWorkerSettings, spawn_ranks: SpawnRanks = RankProcesses.spawn
) -> None:
    """Never returns (`stay_joined`)."""
    await stay_joined(partial(spawn_ranks, f"ranks for {settings.rendezvous}", settings))
