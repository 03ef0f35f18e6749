"""Answers that must be awaited, and say so when somebody forgot.

`run = client.train(…)` without `await` gives no run but a promise of one; whoever uses it as a run is
told what is missing, and not that a coroutine has no attribute `id`.
"""

from collections.abc import Callable, Coroutine, Generator
from functools import wraps
from types import TracebackType
from typing import TYPE_CHECKING, Generic, NoReturn, ParamSpec, TypeVar

from warren.errors import NotAwaited

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)
P = ParamSpec("P")


class Pending(Coroutine[object, None, T_co], Generic[T_co]):
    """A coroutine (for `await`, tasks and `asyncio.run`) that is nothing else by mistake."""

    def __init__(self, call: str, coroutine: Coroutine[object, None, T_co]) -> None:
        self._call = call
        self._coroutine = coroutine
        self.__name__ = self.__qualname__ = call  # for the repr of its task

    def __repr__(self) -> str:
        return f"<{self._call}(…), not awaited yet>"

    def __await__(self) -> Generator[object, None, T_co]:
        return self._coroutine.__await__()

    def send(self, value: None, /) -> object:
        return self._coroutine.send(value)

    def throw(
        self,
        typ: "type[BaseException] | BaseException",
        val: BaseException | object = None,
        tb: TracebackType | None = None,
        /,
    ) -> object:
        if isinstance(typ, BaseException):
            return self._coroutine.throw(typ)
        return self._coroutine.throw(typ, val, tb)

    def close(self) -> None:
        self._coroutine.close()

    if not TYPE_CHECKING:  # a type checker finds the mistake by itself

        def __getattr__(self, name: str) -> NoReturn:
            if name.startswith(("_", "cr_", "gi_")):  # asyncio and IPython look for these
                raise AttributeError(name)
            self._refuse()

        def __iter__(self) -> NoReturn:
            self._refuse()

        def __getitem__(self, key: object) -> NoReturn:
            self._refuse()

    def _refuse(self) -> NoReturn:
        self._coroutine.close()  # Python need not say it once more
        raise NotAwaited(
            f"{self._call}(…) was not awaited",
            hint=f"Write `await {self._call}(…)`. Where there is no `await`, in a plain script"
            " say, use warren.sync: its calls answer when they are done.",
        )


def pending(method: Callable[P, Coroutine[object, None, T]]) -> Callable[P, Pending[T]]:
    """An `async def` method of a public class, named after it in what is said of it."""
    owner, _, name = method.__qualname__.rpartition(".")
    call = f"{owner.lower()}.{name}"

    @wraps(method)
    def called(*args: P.args, **kwargs: P.kwargs) -> Pending[T]:
        return Pending(call, method(*args, **kwargs))

    return called
