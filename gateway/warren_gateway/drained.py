"""Messages about work that only drained workers could do."""

from collections.abc import Iterable

from warren_schemas.control import Heartbeat
from warren_schemas.ids import WorkerId

_DRAINED = "every {} of {} is drained"
_REMEDY = "an admin has one take work again with: warren workers undrain {}"


def drained_one(offer: str, workers: Iterable[Heartbeat]) -> WorkerId | None:
    """The first of these workers that would offer it if it were not drained."""
    return min((w.worker for w in workers if offer in w.drained_offers), default=None)


def every_one(role: str, offer: str, n_gpus: int = 1) -> str:
    """`role` as people read it; of trainers, those with so many GPUs."""
    return _DRAINED.format(role, offer if n_gpus == 1 else f"{offer} with {n_gpus} GPUs")


def undrain(worker: WorkerId) -> str:
    """The end of a sentence, without its full stop."""
    return _REMEDY.format(worker)
