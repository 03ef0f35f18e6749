"""Transactions of SQLite that wait for their turn share one commit: that waits for the disk, whatever it holds.

Invariants
- Each runs in a session and a savepoint of its own: one that raises has no effect, and the others have theirs.
- Nobody hears of a result before it is on the disk. What fails of the database itself fails for all of a group.
- What rides along with whatever posts is run once for each ride, after all that is in the same transaction. Only what fails
  of the database may fail it. No post is missed: who gets on late goes at once.
- The one thread has one connection, which has no transaction between two groups.
"""

import asyncio
import contextlib
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, TypeVar, cast

from sqlalchemy import Connection, Engine
from sqlalchemy.exc import OperationalError
from sqlmodel import Session

T = TypeVar("T")
POSTED = "posted"
"""Key of a session's `info`, which is of one transaction: it is there when something was posted in it that is awaited."""
MOST = 64
"""Transactions of a group: those after it wait for its commit."""


@dataclass(frozen=True, slots=True)
class _Waiting:
    work: Callable[[Session], object]
    future: asyncio.Future[Any]


@dataclass(frozen=True, slots=True)
class _Outcome:
    result: object = None
    error: Exception | None = None


class GroupCommit:
    """`threads` is one thread, as there is one writer; `info` is of each session."""

    def __init__(self, engine: Engine, threads: ThreadPoolExecutor, info: dict[str, Any]) -> None:
        self._engine = engine
        self._threads = threads
        self._info = info
        self._waiting: deque[_Waiting] = deque()
        self._riders: deque[_Waiting] = deque()
        self._is_ride_due = False
        """Something was posted, or somebody is in a hurry, and nobody rode along. The thread alone writes it: before it looks
        for who rides, as who gets on looks here after that."""
        self._connection: Connection | None = None

    def transact(self, work: Callable[[Session], T]) -> "asyncio.Future[T]":
        """Its result, once it is committed; what it raises, once it is rolled back."""
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._waiting.append(_Waiting(work, future))
        self._threads.submit(self._take_turn)
        return cast("asyncio.Future[T]", future)

    def ride(self, work: Callable[[Session], T]) -> "asyncio.Future[T]":
        """The same at the end of the next transaction that posts something; in one of its own where that is due already."""
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._riders.append(_Waiting(work, future))
        if self._is_ride_due:
            self._threads.submit(self._take_turn)
        return cast("asyncio.Future[T]", future)

    def hurry(self) -> None:
        """Let who rides go at once, now or when somebody gets on."""
        with contextlib.suppress(RuntimeError):  # closed: nobody rides any more
            self._threads.submit(self._take_turn, is_hurried=True)

    def _take_turn(self, *, is_hurried: bool = False) -> None:
        """Of all that wait by now; whoever came later finds nothing left."""
        self._is_ride_due |= is_hurried
        if group := [self._waiting.popleft() for _ in range(min(len(self._waiting), MOST))]:
            self._commit(group)
        if (rider := self._next_rider()) is not None:
            self._commit([rider])

    def _next_rider(self) -> _Waiting | None:
        while self._is_ride_due and self._riders:
            rider = self._riders.popleft()
            if not rider.future.cancelled():
                self._is_ride_due = False
                return rider
        return None

    def _commit(self, group: list[_Waiting]) -> None:
        outcomes = self._outcomes(group)
        with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits
            group[0].future.get_loop().call_soon_threadsafe(_tell, group, outcomes)

    def _outcomes(self, group: list[_Waiting]) -> list[_Outcome]:
        """Whoever rides along joins the group."""
        try:
            if len(group) == 1:
                return self._alone(group)
            return self._together(group)
        except Exception as error:  # noqa: BLE001  whoever wanted it is told
            return [_Outcome(error=error) for _ in group]

    def close(self) -> None:
        """Once the thread has ended."""
        if self._connection is not None:
            self._connection.close()

    def _connect(self) -> Connection:
        """To take one from the engine's pool, and give it back, takes longer than most of what is done with it."""
        if self._connection is None:
            self._connection = self._engine.connect()
        return self._connection

    def _alone(self, group: list[_Waiting]) -> list[_Outcome]:
        with self._session(self._connect()) as session, session.begin():
            outcomes = [_Outcome(group[0].work(session))]
            self._is_ride_due |= POSTED in session.info
            if (rider := self._next_rider()) is not None:
                group.append(rider)
                outcomes.append(_Outcome(rider.work(session)))
            return outcomes

    def _together(self, group: list[_Waiting]) -> list[_Outcome]:
        """Raises what fails of the database."""
        with (connection := self._connect()).begin():
            connection.exec_driver_sql("BEGIN")  # the driver begins none before a savepoint
            outcomes = [self._in_savepoint(connection, waiting.work) for waiting in group]
            if (rider := self._next_rider()) is not None:
                group.append(rider)
                outcomes.append(self._in_savepoint(connection, rider.work))
            return outcomes

    def _in_savepoint(self, connection: Connection, work: Callable[[Session], object]) -> _Outcome:
        """Raises what fails of the database: the transaction is over then, for all."""
        try:
            with self._session(connection) as session, session.begin():
                result = work(session)
            self._is_ride_due |= POSTED in session.info
            return _Outcome(result)
        except OperationalError:
            raise
        except Exception as error:  # noqa: BLE001  whoever wanted it is told
            return _Outcome(error=error)

    def _session(self, connection: Connection) -> Session:
        return Session(
            connection,
            expire_on_commit=False,
            info=dict(self._info),
            join_transaction_mode="create_savepoint",
        )


def _tell(group: Sequence[_Waiting], outcomes: Sequence[_Outcome]) -> None:
    for waiting, outcome in zip(group, outcomes, strict=True):
        if waiting.future.done():
            continue
        if outcome.error is None:
            waiting.future.set_result(outcome.result)
        else:
            waiting.future.set_exception(outcome.error)
