# pyright: reportUnknownMemberType=false, reportPrivateImportUsage=false
"""Starts, watches and ends the ranks of this machine: `python -m warren_gpu_worker.trainer.launching.agent NAME`.

It is torchrun's agent (`LocalElasticAgent`, with a rendezvous over c10d) in a process of its own, one on each
machine. That of the machine which talks to the broker holds the store where all meet, and hands its own
conversation with the supervisor to the first rank.

Invariants:
- Ranks are started once. Whatever happens to one of them, or to another machine, ends this process and with it
  its ranks; its supervisor starts the next one, so every start begins with an empty store and an op log.
- No rank outlives it.
"""

import logging
import os
import sys

from torch.distributed import TCPStore
from torch.distributed.elastic.agent.server.api import WorkerGroup, WorkerSpec
from torch.distributed.elastic.agent.server.local_elastic_agent import LocalElasticAgent
from torch.distributed.elastic.multiprocessing import DefaultLogsSpecs
from torch.distributed.elastic.rendezvous import (
    RendezvousError,
    RendezvousHandler,
    RendezvousParameters,
)
from torch.distributed.elastic.rendezvous.c10d_rendezvous_backend import C10dRendezvousBackend
from torch.distributed.elastic.rendezvous.dynamic_rendezvous import create_handler

from warren_broker.worker.channel import Channel
from warren_gpu_worker.device_errors import first_line
from warren_gpu_worker.machines.network import address_towards, choose_interface
from warren_gpu_worker.settings import GpuWorkerSettings
from warren_gpu_worker.trainer.launching.rank_start import RankArguments, start_rank
from warren_gpu_worker.trainer.launching.rendezvous import (
    FATAL_ERROR,
    RendezvousAddress,
    host_rendezvous,
    join_rendezvous,
)
from warren_gpu_worker.trainer.messages import START_S

_RUN = "ranks"
"""Name of the rendezvous; each store has one."""
_LEAVE_S = 3
"""What a rank has to end, before it is killed."""

log = logging.getLogger(__name__)


class RanksChanged(RuntimeError):
    """Another machine has come or gone."""


class _Agent(LocalElasticAgent):
    def _restart_workers(  # pyright: ignore[reportIncompatibleVariableOverride]
        self, worker_group: WorkerGroup
    ) -> None:
        """Those of before are in the middle of an op log: the supervisor must know, and begin it again."""
        raise RanksChanged("another machine has come: all ranks begin again")


def main() -> None:
    logging.basicConfig(format="%(asctime)s %(levelname)s %(name)s %(message)s")
    channel = Channel.inherited()
    settings = GpuWorkerSettings.model_validate_json(channel.arguments[0])
    store, rendezvous = _open_or_join(settings)
    if settings.machines > 1:
        log.warning("waiting at %s for %d machines", settings.rendezvous, settings.machines)
    address = address_towards(rendezvous.host, rendezvous.port)
    os.environ["TORCH_DISABLE_SHARE_RDZV_TCP_STORE"] = "1"  # they meet in ours
    choose_interface(address)
    try:
        _agent(channel, settings, rendezvous, _handler(settings, store, address)).run()
    except (RanksChanged, RendezvousError) as error:
        log.warning("%s", error.__cause__ or error)
    if not settings.join and store.check([FATAL_ERROR]):
        channel.send(bytes.fromhex(store.get(FATAL_ERROR).decode()))
    os._exit(1)  # threads of the rendezvous may wait for a store that is gone


def _open_or_join(settings: GpuWorkerSettings) -> tuple[TCPStore, RendezvousAddress]:
    try:
        return join_rendezvous(settings) if settings.join else host_rendezvous(settings)
    except (OSError, RuntimeError) as error:
        hint = (
            "is the worker there started, and does a firewall let this machine through?"
            if settings.join
            else "--rendezvous is an address of this machine and a free port"
        )
        raise SystemExit(
            f"error: no rendezvous at {settings.rendezvous}: {first_line(str(error))}; {hint}"
        ) from error


def _agent(
    channel: Channel,
    settings: GpuWorkerSettings,
    rendezvous: RendezvousAddress,
    handler: RendezvousHandler,
) -> LocalElasticAgent:
    spec = WorkerSpec(
        role="trainer",
        local_world_size=settings.devices,
        rdzv_handler=handler,
        entrypoint=start_rank,
        args=(RankArguments(settings, rendezvous, channel.detach(), os.getpid(), sys.argv[1]),),
        max_restarts=0,
    )
    return _Agent(
        spec,
        DefaultLogsSpecs(log_dir=os.devnull),
        start_method="spawn",
        exit_barrier_timeout=1,
        shutdown_timeout=_LEAVE_S,
    )


def _handler(settings: GpuWorkerSettings, store: TCPStore, address: str) -> RendezvousHandler:
    parameters = RendezvousParameters(
        backend="c10d",
        endpoint="",
        run_id=_RUN,
        min_nodes=settings.machines,
        max_nodes=settings.machines,
        local_addr=address,
        join_timeout=int(START_S),
    )
    return create_handler(store, C10dRendezvousBackend(store, _RUN), parameters)


if __name__ == "__main__":
    main()
