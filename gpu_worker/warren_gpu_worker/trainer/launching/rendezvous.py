# pyright: reportUnknownMemberType=false, reportPrivateImportUsage=false
"""The rendezvous of a model's ranks: a store of c10d, in the agent of the machine that talks to the broker.

Invariants:
- Each life of that agent has a store of its own and starts ranks once, so nothing is left of those before.
- The store listens at one address alone; that of a single machine can't be reached from others. Whoever reaches
  it can run code in every rank: it is for a network of one's own.
"""

import os
import socket
from dataclasses import dataclass
from datetime import timedelta
from typing import Self

from torch.distributed import TCPStore

from warren_gpu_worker.machines.network import family_of, resolved
from warren_gpu_worker.settings import GpuWorkerSettings

FATAL_ERROR = "fatal error"
"""Key of what a rank says whose end is the end of all."""
_STORE_S = 60.0
"""As long as the store may take to answer."""
_LOOPBACK = "127.0.0.1"


@dataclass(frozen=True, slots=True)
class Place:
    """Of one rank, as the agent says it in the variables that torchrun has."""

    rank: int
    size: int
    local_rank: int
    n_local: int

    @classmethod
    def given(cls) -> Self:
        said = os.environ
        return cls(
            int(said["RANK"]),
            int(said["WORLD_SIZE"]),
            int(said["LOCAL_RANK"]),
            int(said["LOCAL_WORLD_SIZE"]),
        )

    def numbered_from(self, first: int) -> int:
        """The rank, if this one is counted as the first: torchrun says in its own order whose ranks come first."""
        return (self.rank - first) % self.size


@dataclass(frozen=True, slots=True)
class RendezvousAddress:
    """The address of the store."""

    host: str
    port: int

    def joined(self) -> TCPStore:
        """The store, from any machine; waits until it is there. Raises `RuntimeError`."""
        return TCPStore(
            self.host,
            self.port,
            is_master=False,
            wait_for_workers=False,
            timeout=timedelta(seconds=_STORE_S),
        )


def host_rendezvous(settings: GpuWorkerSettings) -> tuple[TCPStore, RendezvousAddress]:
    """A new store, which is there as long as this process holds it. Raises `OSError`."""
    host, port = settings.rendezvous_address or (_LOOPBACK, 0)
    listening = socket.create_server(resolved(host, port), family=family_of(host, port))
    port = listening.getsockname()[1]
    store = TCPStore(
        host,
        port,
        is_master=True,
        wait_for_workers=False,
        timeout=timedelta(seconds=_STORE_S),
        master_listen_fd=listening.detach(),
        use_libuv=False,  # which listens at every address
    )
    return store, RendezvousAddress(host, port)


def join_rendezvous(settings: GpuWorkerSettings) -> tuple[TCPStore, RendezvousAddress]:
    """That of another machine. Raises `RuntimeError`."""
    assert settings.rendezvous_address is not None
    address = RendezvousAddress(*settings.rendezvous_address)
    return address.joined(), address
