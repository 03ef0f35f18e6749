"""Access to the store: transactions in threads, so that the event loop stays free.

SQLite (in WAL mode) has one thread and so one writer, and what waits for it is committed together. What only reads has
threads of its own there and waits for no disk: it sees all that was committed before it began, and what is under way it
does not see. PostgreSQL has a small pool for both. Work that fails because the database is away, or takes no writes,
raises `StoreUnavailable`. The transaction then had no effect, unless the connection was lost in the very moment of the
commit: whoever tries again must recognise what it did.
"""

import asyncio
import contextlib
from collections.abc import Callable, Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from psycopg import Error as PostgresError
from sqlalchemy import Engine, event
from sqlalchemy.engine import make_url
from sqlalchemy.exc import DatabaseError, InterfaceError, InternalError, OperationalError
from sqlmodel import Session, create_engine

from warren_gateway.private import make_private_file
from warren_gateway.store.group_commit import GroupCommit
from warren_gateway.store.migrate import NewerDatabase, upgrade
from warren_gateway.store.reading import JSON_COLUMNS, SQLITE, is_refused_write, reading
from warren_schemas.ids import new_id

T = TypeVar("T")

GATEWAY = "gateway"
"""Key of a session's `info`: whose transaction it is."""
POSTGRES_THREADS = 4
SQLITE_READERS = 2
CONNECT_S = 5
IDLE_IN_TRANSACTION_S = 5


class StoreUnavailable(Exception):
    """The database can't be reached, takes no writes, or did not answer."""


class Store:
    """Hand `transact` or `read` a function of a session; it runs in a thread, in one transaction."""

    def __init__(self, engine: Engine, n_threads: int) -> None:
        self._engine = engine
        self.gateway = new_id("gateway")
        """Who we are in this store: holder of leases, poster of messages."""
        self.is_private = engine.dialect.name == "sqlite"
        """Whether no other gateway shares it."""
        self._threads = _threads(n_threads)
        self._reading = reading(engine)
        has_own = self._reading.pool is not engine.pool
        self._readers = _threads(SQLITE_READERS) if has_own else self._threads
        info = {GATEWAY: self.gateway}
        self._group = GroupCommit(engine, self._threads, info) if self.is_private else None

    @classmethod
    async def open(cls, url: str) -> "Store":
        """Connect and bring the schema up to date. Raises `StoreUnavailable`."""
        is_sqlite = make_url(url).get_backend_name() == "sqlite"
        if is_sqlite:
            await asyncio.to_thread(_make_file, make_url(url).database)
        engine = _sqlite(url) if is_sqlite else _postgres(url)
        store = cls(engine, 1 if is_sqlite else POSTGRES_THREADS)
        async with AsyncExitStack() as unless_open:
            unless_open.push_async_callback(store.close)
            await store._upgrade(url)
            unless_open.pop_all()
        return store

    async def _upgrade(self, url: str) -> None:
        try:
            await self._in_thread(self._threads, partial(upgrade, self._engine))
        except (DatabaseError, InterfaceError) as error:
            raise StoreUnavailable(
                f"can't open the store at {describe(url)}: {error.orig}"
            ) from error
        except NewerDatabase as error:
            raise StoreUnavailable(
                f"the store at {describe(url)} is of a newer Warren than this one ({error})"
            ) from error

    @property
    def description(self) -> str:
        return describe(self._engine.url.render_as_string(hide_password=False))

    async def transact(self, work: Callable[[Session], T]) -> T:
        """Run `work` in one transaction; commit when it returns, roll back when it raises.

        Raises `StoreUnavailable` when the database is away.
        """
        with _told_as_unavailable():
            if self._group is not None:
                return await _to_its_end(self._group.transact(work))
            return await self._in_thread(self._threads, partial(self._run, self._engine, work))

    async def transact_with_posts(self, work: Callable[[Session], T], *, within_s: float) -> T:
        """The same at the end of the next transaction that posts something, or in one of its own: where something was posted
        since the last time, where somebody is in a `hurry`, and after `within_s`. Only in a private store."""
        assert self._group is not None
        timer = asyncio.get_running_loop().call_later(within_s, self.hurry)
        try:
            with _told_as_unavailable():
                return await self._group.ride(work)
        finally:
            timer.cancel()

    def hurry(self) -> None:
        """Let what waits for a transaction that posts something wait no longer, now or the next time."""
        if self._group is not None:
            self._group.hurry()

    async def read(self, work: Callable[[Session], T]) -> T:
        """Run `work`, which changes nothing.

        Raises `StoreUnavailable` when the database is away, and `TypeError` when `work` writes.
        """
        with _told_as_unavailable():
            return await self._in_thread(self._readers, partial(self._read, work))

    def _read(self, work: Callable[[Session], T]) -> T:
        try:
            return self._run(self._reading, work)
        except (OperationalError, InternalError) as error:
            if not is_refused_write(error):
                raise
            raise TypeError(f"what only reads would write: {error.orig}") from error

    def _run(self, engine: Engine, work: Callable[[Session], T]) -> T:
        info = {GATEWAY: self.gateway}
        with Session(engine, expire_on_commit=False, info=info) as session, session.begin():
            return work(session)

    async def _in_thread(self, threads: ThreadPoolExecutor, work: Callable[[], T]) -> T:
        return await _to_its_end(asyncio.get_running_loop().run_in_executor(threads, work))

    async def close(self) -> None:
        """End all connections, also when cancelled meanwhile."""
        await _to_its_end(asyncio.get_running_loop().run_in_executor(None, self._end))

    def _end(self) -> None:
        for threads in {self._readers, self._threads}:
            threads.shutdown()
        if self._group is not None:
            self._group.close()
        self._reading.dispose()
        self._engine.dispose()


def _threads(n: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(n, thread_name_prefix="store")


@contextlib.contextmanager
def _told_as_unavailable() -> Generator[None]:
    try:
        yield
    except (OperationalError, InterfaceError) as error:
        raise StoreUnavailable(str(error.orig)) from error
    except InternalError as error:
        if not _takes_no_writes(error):
            raise
        raise StoreUnavailable(str(error.orig)) from error


async def _to_its_end(future: "asyncio.Future[T]") -> T:
    """A transaction that has begun can't be called back: wait for it even when cancelled, so that nobody acts on a
    half-known outcome."""
    try:
        return await asyncio.shield(future)
    except asyncio.CancelledError:
        await asyncio.wait([future])
        if not future.cancelled():
            future.exception()  # nobody is left to hear of it
        raise


def describe(url: str) -> str:
    """The URL without its password."""
    return make_url(url).render_as_string(hide_password=True)


def _takes_no_writes(error: InternalError) -> bool:
    """PostgreSQL is read-only for now, or gave up on a transaction that stood still."""
    orig = error.orig
    return isinstance(orig, PostgresError) and (orig.sqlstate or "").startswith("25")


def _postgres(url: str) -> Engine:
    """Nothing waits for ever: neither we for a server that is gone, nor the server for us.

    A gateway that was frozen in a transaction would keep its rows locked, and its runs with them; see
    also `frozen`, which knows gateways by the name of the application. What the URL says holds instead.
    """
    limits: dict[str, str | int] = {
        "connect_timeout": CONNECT_S,
        "keepalives_idle": CONNECT_S,
        "keepalives_interval": CONNECT_S,
        "keepalives_count": 3,
        "tcp_user_timeout": 3000 * CONNECT_S,
        "fallback_application_name": "warren-gateway",
        "options": f"-c idle_in_transaction_session_timeout={IDLE_IN_TRANSACTION_S}s",
    }
    given = make_url(url).query
    ours = {name: value for name, value in limits.items() if name not in given}
    return create_engine(url, pool_pre_ping=True, connect_args=ours, **JSON_COLUMNS)


def _make_file(path: str | None) -> None:
    """For its owner alone; SQLite gives the files that it puts beside it the same permissions.

    Where it can't be made, connecting says so.
    """
    if path and path != ":memory:" and not path.startswith("file:"):
        with contextlib.suppress(OSError):
            make_private_file(Path(path))


def _sqlite(url: str) -> Engine:
    """A commit is on the disk before it is told of: what workers and samplers have heard outlives a
    power cut, or they would be ahead of the store that comes back."""
    engine = create_engine(url, **SQLITE)

    def configure(connection: Any, _record: object) -> None:
        cursor = connection.cursor()
        cursor.execute("PRAGMA journal_mode=WAL")
        cursor.execute("PRAGMA synchronous=FULL")
        cursor.execute("PRAGMA foreign_keys=ON")
        cursor.close()

    event.listen(engine, "connect", configure)
    return engine
