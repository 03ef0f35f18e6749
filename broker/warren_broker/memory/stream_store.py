"""Streams on disk: one SQLite file in WAL mode, one connection to write and one to read.

Invariants: the offsets of a stream have no gaps and are never given twice, also after everything
in it was dropped for age or size; times never decrease. A committed message survives the death of
the process at any line (WAL, `synchronous=NORMAL`); the power cut that the disk did not survive may
cost the newest ones, as on a single RabbitMQ node.

All calls block: they belong into the writer's or the reader's thread.
"""

import sqlite3
import time
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from warren_broker.topology import Stream

_OFFSET_BITS = 40
"""A message's key is the stream's number shifted by this, plus its offset."""
_TRIM_AT_ONCE = 500
MAX_READ_BYTES = 4 * 1024 * 1024
"""One read returns no more than this, and one message at least."""

_SCHEMA = """
CREATE TABLE IF NOT EXISTS stream (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    name TEXT UNIQUE,  -- NULL when deleted and not yet purged
    max_age_s REAL NOT NULL,
    max_size_bytes INTEGER NOT NULL,
    next_offset INTEGER NOT NULL DEFAULT 0,
    size_bytes INTEGER NOT NULL DEFAULT 0
);
CREATE TABLE IF NOT EXISTS message (
    key INTEGER PRIMARY KEY,
    at_s REAL NOT NULL,
    message_id TEXT NOT NULL,
    body BLOB NOT NULL
);
"""


class Record(NamedTuple):
    offset: int
    at_s: float
    message_id: str
    body: bytes


@dataclass(frozen=True, slots=True)
class StreamRow:
    """A stream as it was found on disk."""

    id: int
    name: str
    next_offset: int
    last_s: float
    """Time of the newest message; 0 when there is none."""


class StreamStore:
    def __init__(self, path: Path) -> None:
        self._writer = _connect(path)
        self._writer.executescript(_SCHEMA)
        self._reader = _connect(path)

    def close_reader(self) -> None:
        self._reader.close()

    def close_writer(self) -> None:
        self._writer.close()

    def streams(self) -> list[StreamRow]:
        names = self._writer.execute("SELECT name FROM stream WHERE name IS NOT NULL").fetchall()
        return [self._row(name) for (name,) in names]

    def ensure(self, stream: Stream) -> StreamRow:
        """Create the stream, or give the one that is there these limits."""
        with self._writer:
            self._writer.execute(
                "INSERT INTO stream (name, max_age_s, max_size_bytes) VALUES (?, ?, ?)"
                " ON CONFLICT (name) DO UPDATE SET"
                " max_age_s = excluded.max_age_s, max_size_bytes = excluded.max_size_bytes",
                (stream.name, stream.max_age_s, stream.max_size_bytes),
            )
        return self._row(stream.name)

    def free_name(self, name: str) -> None:
        """Free the name; `purge` then frees the space."""
        with self._writer:
            self._writer.execute("UPDATE stream SET name = NULL WHERE name = ?", (name,))

    def purge(self) -> bool:
        """Delete a few messages of a forgotten stream; False when there is nothing left to do."""
        row = self._writer.execute("SELECT id FROM stream WHERE name IS NULL").fetchone()
        if row is None:
            return False
        keys = [key for key, _, _ in self._oldest(row[0])]
        with self._writer:
            if keys:
                self._drop(row[0], keys, 0)
            else:
                self._writer.execute("DELETE FROM stream WHERE id = ?", row)
        return True

    def append(self, records: dict[int, list[Record]]) -> dict[int, int]:
        """Commit the records of several streams, by stream number, in one transaction.

        Where old messages were dropped in return, the first offset that is left, or may be.
        """
        first_offsets: dict[int, int] = {}
        with self._writer:
            for stream_id, appended in records.items():
                base = stream_id << _OFFSET_BITS
                self._writer.executemany(
                    "INSERT INTO message VALUES (?, ?, ?, ?)",
                    [(base + r.offset, r.at_s, r.message_id, r.body) for r in appended],
                )
                self._writer.execute(
                    "UPDATE stream SET next_offset = ?, size_bytes = size_bytes + ? WHERE id = ?",
                    (appended[-1].offset + 1, sum(len(r.body) for r in appended), stream_id),
                )
                if (dropped := self._trim(stream_id)) is not None:
                    first_offsets[stream_id] = dropped + 1
        return first_offsets

    def read(self, stream_id: int, offset: int, limit: int) -> list[Record]:
        """The messages from this offset on, or from the oldest that is left."""
        base = stream_id << _OFFSET_BITS
        rows = self._reader.execute(
            "SELECT key - ?, at_s, message_id, body FROM message"
            " WHERE key >= ? AND key < ? ORDER BY key LIMIT ?",
            (base, base + offset, base + (1 << _OFFSET_BITS), limit),
        )
        records: list[Record] = []
        n_bytes = 0
        for row in rows:
            records.append(Record(*row))
            n_bytes += len(records[-1].body)
            if n_bytes >= MAX_READ_BYTES:
                break
        return records

    def offset_at(self, stream_id: int, next_offset: int, unix_s: float) -> int:
        """Offset of the first message appended at or after this time; `next_offset` if none was."""
        base = stream_id << _OFFSET_BITS

        def appended_s(offset: int) -> float:
            row = self._reader.execute(
                "SELECT at_s FROM message WHERE key = ?", (base + offset,)
            ).fetchone()
            return row[0] if row else 0.0  # dropped, so older than all that is left

        return bisect_left(range(next_offset), unix_s, key=appended_s)

    def _row(self, name: str) -> StreamRow:
        stream_id, next_offset = self._writer.execute(
            "SELECT id, next_offset FROM stream WHERE name = ?", (name,)
        ).fetchone()
        newest = self._writer.execute(
            "SELECT at_s FROM message WHERE key = ?",
            ((stream_id << _OFFSET_BITS) + next_offset - 1,),
        ).fetchone()
        return StreamRow(stream_id, name, next_offset, newest[0] if newest else 0.0)

    def _trim(self, stream_id: int) -> int | None:
        """Drop what is too old or too much, oldest first, some at a time; the last dropped offset.

        Called whenever something is appended.
        """
        size, max_size, max_age_s = self._writer.execute(
            "SELECT size_bytes, max_size_bytes, max_age_s FROM stream WHERE id = ?", (stream_id,)
        ).fetchone()
        horizon_s = time.time() - max_age_s
        dropped: list[int] = []
        freed = 0
        for key, at_s, n_bytes in self._oldest(stream_id):
            if size - freed <= max_size and at_s >= horizon_s:
                break
            dropped.append(key)
            freed += n_bytes
        if not dropped:
            return None
        self._drop(stream_id, dropped, freed)
        return dropped[-1] - (stream_id << _OFFSET_BITS)

    def _oldest(self, stream_id: int) -> sqlite3.Cursor:
        base = stream_id << _OFFSET_BITS
        return self._writer.execute(
            "SELECT key, at_s, length(body) FROM message"
            " WHERE key >= ? AND key < ? ORDER BY key LIMIT ?",
            (base, base + (1 << _OFFSET_BITS), _TRIM_AT_ONCE),
        )

    def _drop(self, stream_id: int, keys: Sequence[int], n_bytes: int) -> None:
        self._writer.execute("DELETE FROM message WHERE key BETWEEN ? AND ?", (keys[0], keys[-1]))
        self._writer.execute(
            "UPDATE stream SET size_bytes = size_bytes - ? WHERE id = ?", (n_bytes, stream_id)
        )


def _connect(path: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(path, check_same_thread=False)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = NORMAL")
    return connection
