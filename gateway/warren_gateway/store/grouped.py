"""Small transactions that come at once are committed together: a commit waits for the disk, whatever it holds.

Invariant: what shares a transaction is done or not done together; so nothing that may be refused belongs here.
"""

import asyncio
from collections.abc import Callable
from typing import Any, TypeVar, cast

from sqlmodel import Session

from warren_gateway.store.store import Store, StoreUnavailable

T = TypeVar("T")
MOST = 256
"""In one transaction."""

_Work = Callable[[Session], object]


class Grouped:
    def __init__(self, store: Store) -> None:
        self._store = store
        self._waiting: list[tuple[_Work, asyncio.Future[Any]]] = []
        self._committing: asyncio.Task[None] | None = None

    async def transact(self, work: Callable[[Session], T]) -> T:
        """As of `Store`, in one transaction with what others want meanwhile. Raises `StoreUnavailable`."""
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._waiting.append((work, future))
        if self._committing is None:
            self._committing = asyncio.create_task(self._commit_all(), name="small transactions")
        return cast("T", await future)

    async def _commit_all(self) -> None:
        while self._waiting:
            batch, self._waiting = self._waiting[:MOST], self._waiting[MOST:]
            await self._commit(batch)
        self._committing = None

    async def _commit(self, batch: list[tuple[_Work, "asyncio.Future[Any]"]]) -> None:
        def work_all(session: Session) -> list[object]:
            return [work(session) for work, _ in batch]

        try:
            results = await self._store.transact(work_all)
        except StoreUnavailable as error:
            for _, future in batch:
                if not future.done():
                    future.set_exception(StoreUnavailable(str(error)))
            return
        for (_, future), result in zip(batch, results, strict=True):
            if not future.done():
                future.set_result(result)
