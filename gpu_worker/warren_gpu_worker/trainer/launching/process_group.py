# pyright: reportUnknownMemberType=false, reportPrivateImportUsage=false
"""Joins a rank to its process group."""

from datetime import timedelta

import torch
from torch import distributed
from torch.distributed import Store
from torch.distributed.device_mesh import init_device_mesh

from warren_gpu_worker.trainer.launching.rendezvous import Place
from warren_gpu_worker.trainer.training.ranks import Ranks

_FIRST = "first"
"""Key of the rank that talks to the supervisor, by torchrun's count."""
_RANKS_S = 24 * 3600.0
"""Ranks wait for each other for longer than any op takes, be it the first one's upload of a large
model over a slow line: the supervisor knows much sooner that one hangs, and ends them all."""


def join_ranks(place: Place, store: Store, *, may_be_first: bool, device: str) -> Ranks:
    """Wait until all ranks are here. They meet in `store`; one machine alone `may_be_first`.

    Raises `ValueError` when the machine has too few devices.
    """
    on_gpu = device != "cpu" and (device != "auto" or torch.cuda.is_available())
    if on_gpu:
        if (n_gpus := torch.cuda.device_count()) < place.n_local:
            raise ValueError(
                f"--devices is {place.n_local}, and there are {n_gpus} GPUs; give a smaller one"
            )
        torch.cuda.set_device(place.local_rank)
    if may_be_first and place.local_rank == 0:
        store.set(_FIRST, str(place.rank))
    rank = place.numbered_from(int(store.get(_FIRST)))
    distributed.init_process_group(
        "cpu:gloo,cuda:nccl" if on_gpu else "gloo",
        store=store,
        rank=rank,
        world_size=place.size,
        timeout=timedelta(seconds=_RANKS_S),
    )
    mesh = init_device_mesh("cuda" if on_gpu else "cpu", (place.size,))
    return Ranks(rank, place.size, mesh)
