"""A machine that lends its devices to the trainer of another one (`warren gpu-worker --join`).

It has no broker and holds no model: its ranks do what the first rank does, and when they end, for whatever reason,
they are started again and wait for the others.
"""

import asyncio
import logging

from warren_broker.worker.child import ChildDied
from warren_gpu_worker.settings import GpuWorkerSettings
from warren_gpu_worker.trainer.supervisor.rank_processes import RankProcesses, SpawnRanks

_AGAIN_S = 1.0
"""Before ranks are started again."""

log = logging.getLogger(__name__)


async def lend_devices(
    settings: GpuWorkerSettings, spawn_ranks: SpawnRanks = RankProcesses.spawn
) -> None:
    """Never returns. Cancelled, it takes its ranks with it, and with them those of all machines."""
    while True:
        try:
            await _live(await spawn_ranks(f"ranks for {settings.rendezvous}", settings))
        except (ChildDied, OSError) as error:
            log.warning("the ranks have ended, and join again: %s", error)
        await asyncio.sleep(_AGAIN_S)


async def _live(ranks: RankProcesses) -> None:
    """Raises `ChildDied`: these ranks have nothing to say to us."""
    try:
        await ranks.receive()
    finally:
        ranks.kill()
        await ranks.close()
