"""The event loop's half of the streams: group commit, the newest messages, who reads.

Appends that arrive while a transaction is being written go into the next one together, so a busy
loop pays a few microseconds for each and an idle one waits for no timer.

Invariants: one transaction is under way at a time; offsets are given in the order of the appends; a
reader learns of a message only after it was committed.
"""

import asyncio
import fcntl
import logging
import sqlite3
import time
from collections import deque
from collections.abc import AsyncGenerator, Callable, Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, contextmanager
from copy import copy
from functools import partial
from pathlib import Path
from typing import NamedTuple, Protocol, TypeVar

from warren_broker.errors import BrokerError, BrokerUnavailable, Unroutable
from warren_broker.memory.stream_store import Record, StreamRow, StreamStore
from warren_broker.port import FromTime, StreamStart
from warren_broker.topology import Stream

MAX_GROUP = 1000
"""Most appends of one transaction."""
TAIL_RECORDS = 256
TAIL_BYTES = 4 * 1024 * 1024
"""The newest messages of a stream that are kept in memory, so that live readers need no disk."""

T = TypeVar("T")

log = logging.getLogger(__name__)


class Follower(Protocol):
    """What a stream knows of a reader."""

    def appended(self) -> None: ...
    def end(self, error: Exception | None = None) -> None: ...


class StreamLog:
    """One stream as the event loop sees it."""

    def __init__(self, row: StreamRow) -> None:
        self.id = row.id
        self.name = row.name
        self.next_offset = row.next_offset
        self.last_s = row.last_s
        self.followers: dict[Follower, None] = {}
        self._tail: deque[Record] = deque()
        self._tail_bytes = 0

    @property
    def tail_offset(self) -> int:
        """The first offset that needs no disk."""
        return self.next_offset - len(self._tail)

    def recent(self, offset: int) -> Record | None:
        index = offset - self.tail_offset
        return self._tail[index] if 0 <= index < len(self._tail) else None

    def committed(self, records: list[Record], first_offset: int) -> None:
        """These are on disk now, and nothing before `first_offset` is."""
        self.next_offset += len(records)
        self.last_s = records[-1].at_s
        self._tail.extend(records)
        self._tail_bytes += sum(len(record.body) for record in records)
        while self._tail and (
            self._tail_bytes > TAIL_BYTES
            or len(self._tail) > TAIL_RECORDS
            or self._tail[0].offset < first_offset
        ):
            self._tail_bytes -= len(self._tail.popleft().body)
        for follower in self.followers:
            follower.appended()


class _Append(NamedTuple):
    log: StreamLog
    message_id: str
    body: bytes
    confirmed: asyncio.Future[None]


class Streams:
    """All streams of one data folder. Made by `open_streams`."""

    def __init__(
        self, store: StreamStore, writer: ThreadPoolExecutor, reader: ThreadPoolExecutor
    ) -> None:
        self._store = store
        self._writer = writer
        self._reader = reader
        self._logs: dict[str, StreamLog] = {}
        self._pending: deque[_Append] = deque()
        self._work = asyncio.Event()
        self._changing = asyncio.Lock()
        self._is_closing = False

    async def load(self) -> None:
        """Find what an earlier process left, and finish its deletions."""
        rows = await _in_thread(self._writer, self._store.streams)
        self._logs = {row.name: StreamLog(row) for row in rows}
        await self._purge()

    async def declare(self, stream: Stream) -> StreamLog:
        async with self._changing:
            row = await _on_disk(self._writer, partial(self._store.ensure, stream))
            return self._logs.setdefault(stream.name, StreamLog(row))

    async def delete(self, name: str) -> None:
        async with self._changing:
            if (deleted := self._logs.pop(name, None)) is None:
                return
            for follower in list(deleted.followers):
                follower.end()
            await _on_disk(self._writer, partial(self._store.free_name, name))
        await self._purge()

    def append(self, name: str, message_id: str, body: bytes) -> asyncio.Future[None]:
        """The future is done when the message is on disk. Raises `Unroutable`."""
        if (stream := self._logs.get(name)) is None:
            raise Unroutable(f"there is no stream {name}")
        confirmed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._pending.append(_Append(stream, message_id, body, confirmed))
        self._work.set()
        return confirmed

    async def locate(self, stream: StreamLog, start: StreamStart) -> int:
        """The offset at which a reader starts."""
        if start == "first":
            return 0
        if start == "next":
            return stream.next_offset
        if isinstance(start, FromTime):
            find = partial(self._store.offset_at, stream.id, stream.next_offset, start.unix_s)
            return await _on_disk(self._reader, find)
        return min(start, stream.next_offset)

    async def read(self, stream: StreamLog, offset: int, limit: int) -> list[Record]:
        """From disk: the messages from this offset on, or from the oldest that is left."""
        return await _on_disk(self._reader, partial(self._store.read, stream.id, offset, limit))

    async def commit_until_closed(self) -> None:
        """Write what is pending, group by group."""
        while self._pending or not self._is_closing:
            await self._work.wait()
            self._work.clear()
            while self._pending:
                await self._commit()

    def close(self) -> None:
        """Let `commit_until_closed` write what is pending, and return."""
        self._is_closing = True
        self._work.set()

    async def _commit(self) -> None:
        group = [self._pending.popleft() for _ in range(min(MAX_GROUP, len(self._pending)))]
        group = self._routable(group)
        records = _number(group)
        by_id = {stream.id: new for stream, new in records.items()}
        try:
            first_offsets = await _in_thread(self._writer, partial(self._store.append, by_id))
        except sqlite3.Error as error:
            log.error("%d stream messages could not be written: %s", len(group), error)
            _settle(group, BrokerUnavailable(f"the stream file can't be written: {error}"))
            return
        for stream, new in records.items():
            stream.committed(new, first_offsets.get(stream.id, 0))
        _settle(group, None)

    def _routable(self, group: list[_Append]) -> list[_Append]:
        """Without the appends whose stream was deleted since."""
        gone = [append for append in group if self._logs.get(append.log.name) is not append.log]
        for append in gone:
            _settle([append], Unroutable(f"{append.log.name} was deleted"))
        return [append for append in group if append not in gone] if gone else group

    async def _purge(self) -> None:
        while await _on_disk(self._writer, self._store.purge):
            pass


@asynccontextmanager
async def open_streams(folder: Path) -> AsyncGenerator[Streams]:
    """The streams in this folder, which no other process may have open.

    Raises `BrokerUnavailable` when one has, or when the folder can't be used.
    """
    with (
        _locked(folder),
        ThreadPoolExecutor(1, "streams-writer") as writer,
        ThreadPoolExecutor(1, "streams-reader") as reader,
    ):
        store = await _in_thread(writer, partial(_open_store, folder / "streams.sqlite"))
        streams = Streams(store, writer, reader)
        await streams.load()
        committer = asyncio.create_task(streams.commit_until_closed(), name="streams")
        try:
            yield streams
        finally:
            streams.close()
            await committer
            await _in_thread(reader, store.close_reader)
            await _in_thread(writer, store.close_writer)


def _open_store(path: Path) -> StreamStore:
    try:
        return StreamStore(path)
    except sqlite3.Error as error:
        raise BrokerUnavailable(f"the stream file {path} can't be opened: {error}") from error


@contextmanager
def _locked(folder: Path) -> Generator[None]:
    """Two processes on one folder would give the same offsets twice."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        file = (folder / "lock").open("w")
    except OSError as error:
        raise BrokerUnavailable(f"the data folder {folder} can't be used: {error}") from error
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise BrokerUnavailable(f"another process uses the data folder {folder}") from error
        yield


def _number(group: list[_Append]) -> dict[StreamLog, list[Record]]:
    """Give each append its offset and its time."""
    now_s = time.time()
    records: dict[StreamLog, list[Record]] = {}
    for stream, message_id, body, _ in group:
        new = records.setdefault(stream, [])
        at_s = max(now_s, stream.last_s)
        new.append(Record(stream.next_offset + len(new), at_s, message_id, body))
    return records


def _settle(group: list[_Append], error: BrokerError | None) -> None:
    for append in group:
        if append.confirmed.done():
            continue
        if error is None:
            append.confirmed.set_result(None)
        else:
            append.confirmed.set_exception(copy(error))


async def _on_disk(thread: ThreadPoolExecutor, call: Callable[[], T]) -> T:
    """Raises `BrokerUnavailable` while the file can't be read or written, as on a full disk."""
    try:
        return await _in_thread(thread, call)
    except sqlite3.Error as error:
        raise BrokerUnavailable(f"the stream file can't be used: {error}") from error


async def _in_thread(thread: ThreadPoolExecutor, call: Callable[[], T]) -> T:
    return await asyncio.get_running_loop().run_in_executor(thread, call)
