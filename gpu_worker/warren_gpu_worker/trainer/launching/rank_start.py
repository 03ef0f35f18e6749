"""Entry point of a rank's process, which torchrun's agent starts.

Invariant: importing this module is quick: the agent, which must name it, trains nothing.
"""

import signal
import socket
from dataclasses import dataclass

from warren_broker.worker.parent import die_with_parent
from warren_gpu_worker.settings import GpuWorkerSettings
from warren_gpu_worker.trainer.launching.rendezvous import RendezvousAddress


@dataclass(frozen=True, slots=True)
class RankArguments:
    """What the agent gives each rank of its machine."""

    settings: GpuWorkerSettings
    rendezvous: RendezvousAddress
    conversation: socket.socket
    """The agent's with its supervisor; the first rank goes on with it."""
    agent: int
    """Process id."""
    name: str


def start_rank(given: RankArguments) -> None:
    """Be a rank, until the supervisor of the first one hangs up."""
    die_with_parent(given.agent)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the supervisor's to handle
    from warren_gpu_worker.trainer.launching.rank import run_rank

    run_rank(given.settings, given.rendezvous, given.conversation, given.name)
