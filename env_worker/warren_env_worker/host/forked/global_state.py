"""Global state of an environment's own code: of its modules and classes, and what they hold.

Compared are names and the objects behind them, by identity, and the contents of built-in containers,
down from the modules of the environment's package; besides, names of standard modules that are
patched most. So whatever is bound anew, put in or taken out is seen. What changes within an
object of another package (an array, say) is not.
"""

import itertools
import pickle
import random
import sys
from collections import deque
from collections.abc import Collection, Iterator, Mapping
from operator import is_
from types import FunctionType, ModuleType
from typing import Any, Protocol, cast

import numpy as np

MAX_WATCHED = 2000
"""Objects looked into, nearest to the environment's module first."""
MAX_ITEMS = 256
"""Of a larger container only the number of items is compared."""
_PATCHED = {
    "builtins": ("open", "print", "input", "exec", "eval", "__import__"),
    "os": ("environ", "system", "fork", "open", "listdir", "stat", "remove", "urandom"),
    "time": ("time", "monotonic", "perf_counter", "sleep", "time_ns", "localtime"),
    "datetime": ("datetime", "date"),
    "random": (
        "random",
        "randint",
        "randrange",
        "choice",
        "choices",
        "shuffle",
        "sample",
        "Random",
    ),
    "subprocess": ("Popen", "run"),
    "socket": ("socket", "create_connection", "getaddrinfo"),
}
"""Of a standard module, the names that are replaced most."""
_IGNORED = frozenset({"__warningregistry__", "__annotations__"})
"""Names that Python itself sets late."""
_STATEFUL = (random.Random, np.random.Generator, np.random.RandomState, itertools.count)

Place = tuple[str, object]
"""How a person would write it, and what is there."""


class _Watched(Protocol):
    def change(self) -> str | None:
        """Where it is not as it was."""


class GlobalState:
    """What there was when it was made, to compare with."""

    def __init__(self, module: str) -> None:
        """`module`: where the environment's class is."""
        self._package = _top(module)
        self._modules = {
            name: found
            for name, found in sys.modules.items()
            if name in _PATCHED or _top(name) == self._package
        }
        self._watched: list[_Watched] = [
            _Patched(module, vars(sys.modules[module]), names)
            for module, names in _PATCHED.items()
            if module in self._modules
        ]
        self._watched += itertools.islice(self._found(module), MAX_WATCHED)

    def change(self) -> str | None:
        """What is not as it was; None where all is."""
        for name, module in self._modules.items():
            if sys.modules.get(name) is not module:
                return f"a replaced {name}"
        for watched in self._watched:
            if (where := watched.change()) is not None:
                return f"a changed {where}"
        return None

    def _found(self, first: str) -> Iterator[_Watched]:
        """Breadth first, each object once."""
        own = sorted((name for name in self._modules if name not in _PATCHED), key=first.__ne__)
        queue = deque[Place]((name, self._modules[name]) for name in own)
        seen = set[int]()
        while queue:
            where, value = queue.popleft()
            if id(value) in seen:
                continue
            seen.add(id(value))
            watched = self._watch(where, value)
            if watched is not None:
                yield watched
            queue.extend(self._parts(where, value))

    def _watch(self, where: str, value: object) -> _Watched | None:
        if isinstance(value, _STATEFUL):
            return _State(where, cast("object", value))
        if isinstance(value, dict):
            return _Names(where, cast("dict[object, object]", value))
        if isinstance(value, list | set | deque):
            return _Items(where, cast("Collection[object]", value))
        return _Names(where, vars(value)) if self._is_own(value) else None

    def _parts(self, where: str, value: object) -> Iterator[Place]:
        if isinstance(value, FunctionType):
            yield from ((f"default of {where}()", default) for default in value.__defaults__ or ())
        if isinstance(value, dict):
            items = cast("dict[object, object]", value)
            names = items if len(items) <= MAX_ITEMS else {}
            yield from ((f"{where}[{name!r:.40}]", part) for name, part in names.items())
        elif isinstance(value, list | tuple):
            items = cast("Collection[object]", value)
            yield from ((where, part) for part in (items if len(items) <= MAX_ITEMS else ()))
        elif self._is_own(value):
            yield from ((f"{where}.{name}", part) for name, part in vars(value).items())

    def _is_own(self, value: object) -> bool:
        """Whether it has names, and was made by the environment's package."""
        if not hasattr(value, "__dict__"):
            return False
        if isinstance(value, ModuleType):
            return _top(value.__name__) == self._package
        named = value if isinstance(value, type | FunctionType) else type(value)
        return _top(str(named.__module__)) == self._package


class _Names:
    """A namespace or a dict."""

    def __init__(self, where: str, names: Mapping[Any, object]) -> None:
        self._where = where
        self._names = names
        self._n_names = len(names)
        self._before = dict(names) if len(names) <= MAX_ITEMS else {}

    def change(self) -> str | None:
        names, before = self._names, self._before
        if len(names) == self._n_names and all(map(is_, names.values(), before.values())):
            return None
        for name in {**names, **before}:
            is_same = name in names and name in before and names[name] is before[name]
            if not is_same and name not in _IGNORED:
                return f"{self._where}.{name}" if before else self._where
        return None


class _Patched:
    """Some names of a standard module."""

    def __init__(self, module: str, found: Mapping[str, object], names: tuple[str, ...]) -> None:
        self._module = module
        self._found = found
        self._before = {name: found[name] for name in names}

    def change(self) -> str | None:
        for name, before in self._before.items():
            if self._found.get(name) is not before:
                return f"{self._module}.{name}"
        return None


class _Items:
    """A list, set or deque."""

    def __init__(self, where: str, items: Collection[object]) -> None:
        self._where = where
        self._items = items
        self._n_items = len(items)
        self._before = tuple(items) if len(items) <= MAX_ITEMS else ()

    def change(self) -> str | None:
        is_same = len(self._items) == self._n_items and all(map(is_, self._items, self._before))
        return None if is_same else self._where


class _State:
    """What says its state when it is pickled."""

    def __init__(self, where: str, value: object) -> None:
        self._where = where
        self._value = value
        self._before = pickle.dumps(value)

    def change(self) -> str | None:
        return None if pickle.dumps(self._value) == self._before else self._where


def _top(module: str) -> str:
    return module.partition(".")[0]
