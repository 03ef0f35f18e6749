"""What is said of a base model that nobody holds, and a GPU worker loads or may load.

Workers load what a job waits for that no trainer holds. Nobody loads anything for a run that needs no trainer.
"""

from collections.abc import Iterable

from warren_schemas.control import Heartbeat
from warren_schemas.ids import WorkerId

LOADED_LATER = "no GPU worker has {} loaded, and those that may load it are at work"


def loading(base_model: str, worker: WorkerId) -> str:
    return f"loading {base_model} on {worker}"


def coming(base_model: str, workers: Iterable[Heartbeat], *, is_told: bool) -> str | None:
    """Which of these workers, which don't offer it, loads it; or, where one would be told to, that one may."""
    may_load = False
    for beat in workers:
        if base_model in beat.loading:
            return loading(base_model, beat.worker)
        may_load = may_load or base_model in beat.may_load
    return LOADED_LATER.format(base_model) if is_told and may_load else None
