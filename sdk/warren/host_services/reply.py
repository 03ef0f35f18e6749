"""What was asked of host services: awaited in an `async` method, waited for in one that blocks."""

from collections.abc import Awaitable, Callable, Coroutine, Generator
from typing import Any, Generic, TypeVar

T_co = TypeVar("T_co", covariant=True)


class Reply(Awaitable[T_co], Generic[T_co]):
    """`await reply`, or `reply.wait()`: nothing happens before one of them, and each asks anew."""

    def __init__(
        self, wait: Callable[[], T_co], awaited: Callable[[], Coroutine[Any, Any, T_co]]
    ) -> None:
        self._wait = wait
        self._awaited = awaited

    def wait(self) -> T_co:
        """The answer. Blocks, so it is for plain methods: in an `async` one, all episodes of the process would wait."""
        return self._wait()

    def __await__(self) -> Generator[Any, Any, T_co]:
        return self._awaited().__await__()
