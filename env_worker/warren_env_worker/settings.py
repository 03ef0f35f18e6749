"""Settings of one env worker: what it hosts and how much of it."""

from pathlib import Path

from pydantic import Field

from warren_schemas.base import Frozen
from warren_schemas.config import PositiveInt
from warren_schemas.ids import WorkerId, new_worker_id


def _new_id() -> WorkerId:
    return new_worker_id("env")


class EnvWorkerSettings(Frozen):
    environments: tuple[str, ...] = ()
    """An environment class to host, as module:Class or name=module:Class; may be given several times."""
    only_named: bool = False
    """Host what --env names, and not the environments that are installed."""
    n_processes: PositiveInt = 1
    """Child processes of each environment."""
    capacity: PositiveInt = 1024
    """Most episodes of one environment that are live at once; no new one is taken while there are so
    many."""
    log_dir: Path | None = None
    """What environments print goes to files in this folder; None: to this process's own output."""
    worker: WorkerId = Field(default_factory=_new_id)
