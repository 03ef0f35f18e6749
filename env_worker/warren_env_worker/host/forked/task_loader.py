"""Tasks, loaded in the process that the episodes' processes are forked from."""

from typing import Any

from warren.environment import Env
from warren_env_worker.host.caller import Caller
from warren_env_worker.host.catalogue import Catalogue
from warren_env_worker.host.cell import Cell
from warren_env_worker.host.driven import driven
from warren_env_worker.host.protocol import Call


class TaskLoader:
    """For calls that begin an episode."""

    def __init__(self, cell: Cell, environment: type[Env[Any]]) -> None:
        self.catalogue = Catalogue(environment)
        self._limit_s = environment.limits.load_s
        self._caller = Caller(cell, is_async=False)

    def has(self, call: Call) -> bool:
        assert call.start is not None
        return self.catalogue.has_loaded(call.start)

    def load(self, call: Call) -> None:
        """Under the eyes of the supervisor. Raises what user code does."""
        assert call.start is not None
        driven(self._caller.call(call.id, self._limit_s, self.catalogue.load, call.start))

    def loaded_at(self, call: Call) -> int:
        """A process that was forked after so many loads has its tasks."""
        assert call.start is not None
        return self.catalogue.loaded_at(call.start)
