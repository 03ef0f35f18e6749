"""Modules that an episode imported or removed.

A late import of code that was there when the process began is no leftover: Python imports a module
once, and who imports it again gets the same. A file that was written later may be one episode's own
(a solution that it runs, say); the next one would get the module of the one before.
"""

import os
import sys
from types import ModuleType


class Imports:
    """The modules that there were when it was made, to compare with."""

    def __init__(self, began_s: float) -> None:
        """`began_s`: files that were changed later are not taken for installed code."""
        self._began_s = began_s
        self.n_accepted = 0
        """Modules that were imported since, and may stay."""
        self._look()

    def _look(self) -> None:
        """At their names alone: to look at the modules would touch hundreds of cold cache lines."""
        self._before = frozenset(sys.modules)
        self._last = next(reversed(sys.modules))

    def change(self) -> str | None:
        """What is not as it was; None where all is."""
        if len(sys.modules) == len(self._before) and self._last == next(reversed(sys.modules)):
            return None
        for name in self._before:
            if name not in sys.modules:
                return f"the module {name} removed"
        added = [name for name in sys.modules if name not in self._before]
        for name in added:
            if not self._is_installed(sys.modules[name]):
                return f"the module {name}, which was not there when its process began"
        self._look()
        self.n_accepted += len(added)
        return None

    def _is_installed(self, module: ModuleType) -> bool:
        spec = getattr(module, "__spec__", None)
        origin = None if spec is None else spec.origin
        if origin is None:
            return False
        if origin in ("built-in", "frozen"):
            return True
        try:
            return os.stat(origin).st_ctime < self._began_s
        except OSError:
            return False
