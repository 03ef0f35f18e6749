"""Tasks, loaded in the process that the episodes' processes are forked from."""

import inspect
from typing import Any

from warren.environment import Env
from warren_env_worker.host.call_status import CallStatus
from warren_env_worker.host.child.caller import Caller
from warren_env_worker.host.child.task_cache import TaskCache
from warren_env_worker.host.driven import driven
from warren_env_worker.host.late import raisable_s
from warren_env_worker.host.protocol import Call
from warren_env_worker.host.refusal import config_refusal


class TaskLoader:
    """For calls that begin an episode."""

    def __init__(self, status: CallStatus, environment: type[Env[Any]]) -> None:
        self.task_cache = TaskCache(environment)
        self._limit_s = environment.limits.load_s
        self._awaits = inspect.iscoroutinefunction(environment.tasks)
        self._caller = Caller(status, is_async=False, limits_s=raisable_s(environment))

    def has(self, call: Call) -> bool:
        assert call.start is not None
        return self.task_cache.has_loaded(call.start)

    def load(self, call: Call) -> None:
        """Under the eyes of the supervisor. Raises what user code does."""
        assert call.start is not None
        if self._awaits:
            raise config_refusal("tasks() is async, for which isolation must be 'shared'")
        driven(self._caller.call(call.id, self._limit_s, self.task_cache.load, call.start))

    def loaded_at(self, call: Call) -> int:
        """A process that was forked after so many loads has its tasks."""
        assert call.start is not None
        return self.task_cache.loaded_at(call.start)
