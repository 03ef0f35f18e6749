"""Coroutines that never wait, run without an event loop."""

from collections.abc import Coroutine
from typing import Any, TypeVar

ResultT = TypeVar("ResultT")


def driven(coroutine: Coroutine[Any, Any, ResultT]) -> ResultT:
    """The result of a coroutine that never waits."""
    try:
        coroutine.send(None)
    except StopIteration as end:
        return end.value
    raise RuntimeError("a call of a plain method waited")
