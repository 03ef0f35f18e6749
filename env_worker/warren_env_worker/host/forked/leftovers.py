"""What an episode left behind in its process, so that the next one does not meet it.

Invariant: a process whose state differs from what it was before its first episode, in anything that
is looked at here, takes no other episode. What is not looked at: the inside of objects of foreign
packages, what C libraries keep, files on disk. Looking takes some 70 µs, more with cold caches.
"""

import gc
from typing import Any

from warren.environment import Env
from warren_env_worker.host.forked.fresh import Memory
from warren_env_worker.host.forked.global_state import GlobalState
from warren_env_worker.host.forked.imports import Imports
from warren_env_worker.host.forked.process_state import ProcessState


class Template:
    """Python's state in the process that is forked from, read once for all that are."""

    def __init__(self, environment: type[Env[Any]], began_s: float) -> None:
        self.module = environment.__module__
        self.imports = Imports(began_s)
        self.global_state = GlobalState(self.module)


class Leftovers:
    """Compares this process, which was forked from such a one, with what it was at first."""

    def __init__(self, template: Template, memory: Memory) -> None:
        self._module = template.module
        self._imports = template.imports
        self._global_state = template.global_state
        self._memory = memory
        self._process_state = ProcessState()
        gc.freeze()  # what is there stays: no need to look through it after each episode

    def found(self) -> str | None:
        """The first thing that an episode left behind, as a person would call it; None if nothing.

        Whatever the episode let go of is really gone then: no finalizer of it runs in the next one.
        """
        gc.collect()
        try:
            return self._found()
        except Exception as error:  # noqa: BLE001 - it broke what we look with
            return f"a state that can't be looked at ({type(error).__name__}: {error})"

    def _found(self) -> str | None:
        change = self._global_state.change() or self._process_state.change()
        return change or self._imported() or self._memory.growth()

    def _imported(self) -> str | None:
        n_before = self._imports.n_accepted
        change = self._imports.change()
        if change is None and self._imports.n_accepted > n_before:
            self._global_state = GlobalState(self._module)
            self._memory.rebase()
        return change
