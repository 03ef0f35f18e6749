# pyright: reportUnknownMemberType=false, reportPrivateImportUsage=false
"""A rank, in a process of its own that torchrun's agent has started: it finds the others, and trains with them."""

import socket
import sys
from contextlib import closing, suppress
from functools import partial

from setproctitle import setproctitle
from torch.distributed import Store

from warren_broker.worker.channel import Channel
from warren_gpu_worker.policy_copies import LocalCopies
from warren_gpu_worker.settings import GpuWorkerSettings
from warren_gpu_worker.trainer.child import main
from warren_gpu_worker.trainer.launching.agreement import agreed_settings
from warren_gpu_worker.trainer.launching.process_group import join_ranks
from warren_gpu_worker.trainer.launching.rendezvous import FATAL_ERROR, Place, RendezvousAddress


def run_rank(
    own: GpuWorkerSettings, rendezvous: RendezvousAddress, conversation: socket.socket, name: str
) -> None:
    """Until the supervisor of the first rank hangs up, whose `conversation` with its agent that rank goes on with."""
    main.prepare(own)
    store = rendezvous.joined()
    try:
        ranks = join_ranks(Place.given(), store, may_be_first=not own.join, device=own.device)
        settings = agreed_settings(own, ranks)
    except ValueError as error:
        raise SystemExit(f"error: {error}") from error
    setproctitle(f"{sys.executable} -m {main.__name__} {name}, rank {ranks.rank}")
    with suppress(BrokenPipeError), closing(LocalCopies()) as copies:
        main.TrainerChild(
            Channel(conversation),
            settings,
            ranks,
            copies,
            leave_word=partial(_leave_word, store),
        ).run()


def _leave_word(store: Store, frame: bytes) -> None:
    """The first one counts: it may be why others end."""
    store.compare_set(FATAL_ERROR, "", frame.hex())
