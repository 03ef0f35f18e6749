"""How much memory a list of tasks takes, from a sample of them: exact enough for a budget."""

import sys
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from typing import Any, cast

MAX_SAMPLES = 200
MAX_OBJECTS = 1000
"""That are looked at in each sample."""


def size_bytes(tasks: Sequence[Any]) -> int:
    """Extrapolated. What is neither list nor tuple makes its tasks when it is asked, and counts as itself."""
    own = sys.getsizeof(tasks)
    if not isinstance(tasks, list | tuple):
        return own
    step = max(1, len(tasks) // MAX_SAMPLES)
    samples = tasks[::step]
    sampled = sum(_deep_size_bytes(task) for task in samples)
    return own + sampled * len(tasks) // max(1, len(samples))


def _deep_size_bytes(thing: object) -> int:
    """With all that hangs on it, each thing once."""
    seen: set[int] = set()
    left, total = [thing], 0
    while left and len(seen) < MAX_OBJECTS:
        each = left.pop()
        if id(each) not in seen:
            seen.add(id(each))
            total += sys.getsizeof(each)
            left += _parts(each)
    return total


def _parts(thing: object) -> Iterable[object]:
    if isinstance(thing, str | bytes | bytearray | type):
        return ()
    if isinstance(thing, Mapping):
        return chain.from_iterable(cast("Mapping[object, object]", thing).items())
    if isinstance(thing, list | tuple | set | frozenset):
        return cast("Iterable[object]", thing)
    slots = (getattr(thing, name, None) for name in getattr(type(thing), "__slots__", ()))
    return (*slots, getattr(thing, "__dict__", None))
