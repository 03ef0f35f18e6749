"""Whether a worker's memory can hold a base model at all, told before it is loaded.

Invariant: only what nobody could use is refused: weights that alone are more than the device has. What the worker holds
until then it gives up first; caches and activations come on top. Training takes more, for the trainer has the weights
too: it is refused once a run's model is opened (`trainer.child.memory_plan`), for evaluations need no trainer.
"""

from dataclasses import dataclass
from pathlib import Path

from warren_gpu_worker.base_models.size import count_parameters

_GIB = 1024**3


@dataclass(frozen=True, slots=True)
class DeviceMemory:
    """What a trainer's device has, and what a weight takes of it."""

    total_bytes: int
    bytes_per_weight: int
    is_gpu: bool


def too_large(folder: str, memory: DeviceMemory | None) -> str | None:
    """Why not, as a clause; None if its weights fit, or where nothing is known of the memory."""
    return None if memory is None else too_many(count_parameters(Path(folder)), memory)


def too_many(n_parameters: int, memory: DeviceMemory) -> str | None:
    """The same by their number."""
    needed = n_parameters * memory.bytes_per_weight
    if needed <= memory.total_bytes:
        return None
    return (
        f"its weights need {needed / _GIB:.1f} GiB of memory, and"
        f" {'the GPU' if memory.is_gpu else 'the machine'} has {memory.total_bytes / _GIB:.1f} GiB"
    )


def no_room(n_bytes: int, free_bytes: int) -> str | None:
    """Why it can't be downloaded, as a clause; None if its files find room on the disk."""
    if n_bytes <= free_bytes:
        return None
    return (
        f"its files need {n_bytes / _GIB:.1f} GiB on the worker's disk, and"
        f" {free_bytes / _GIB:.1f} GiB are free"
    )
