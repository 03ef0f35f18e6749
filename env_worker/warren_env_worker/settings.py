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
    """Environment class to host, as module:Class or name=module:Class; repeatable."""
    only_named: bool = False
    """Host only what --env names, not the installed environments."""
    n_processes: PositiveInt = 1
    """Child processes per environment."""
    capacity: PositiveInt = 1024
    """Maximum number of live episodes per environment; at the limit, no new ones are taken."""
    operator_policy: Path | None = None
    """YAML file that says what runs' configs may reach on this worker: secrets, services, functions, files
    (docs/trust.md)."""
    log_dir: Path | None = None
    """What environments print goes to files in this folder; None: to this process's own output."""
    worker: WorkerId = Field(default_factory=_new_id)
