"""Messages about base models that no worker holds and a GPU worker loads or may load.

Workers load what a job waits for that no trainer holds. For a run that needs no
trainer something is loaded that nobody samples or trains, within its owner's budget (`scheduling.load_budget`).
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
        may_load = may_load or beat.loads_if_told(base_model)
    return LOADED_LATER.format(base_model) if is_told and may_load else None


def cannot_load(base_model: str, worker: WorkerId, reason: str) -> str:
    return f"{worker} can't load {base_model}: {reason}"


def refused(base_model: str, workers: Iterable[Heartbeat]) -> str | None:
    """That one of these workers can't load it, and why; no more than one is named."""
    for beat in workers:
        for one in beat.cannot_load:
            if one.base_model == base_model:
                return cannot_load(base_model, beat.worker, one.reason)
    return None
