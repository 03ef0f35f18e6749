"""Connections for what only reads.

Invariants
- They refuse to write, so that nobody writes past the one writer of SQLite.
- A transaction on them sees one state of an SQLite file, however many queries it makes, and waits for no writer.
"""

from typing import Any

import orjson
from psycopg.errors import ReadOnlySqlTransaction
from sqlalchemy import Connection, Engine, create_engine, event
from sqlalchemy.exc import DBAPIError

JSON_COLUMNS: dict[str, Any] = {"json_deserializer": orjson.loads}
"""Of an engine: lists read thousands of columns, and the standard library takes ten times as long for each."""
SQLITE: dict[str, Any] = {"connect_args": {"check_same_thread": False}, **JSON_COLUMNS}
"""Of an engine: a connection is used by one thread at a time, not always the same one."""
_IN_MEMORY = ("", ":memory:")


def reading(writer: Engine) -> Engine:
    """For the database of `writer`: with connections of their own where it is an SQLite file, else those of `writer`
    (a database in memory has no others)."""
    if writer.dialect.name == "postgresql":
        return writer.execution_options(postgresql_readonly=True)
    path = writer.url.database or ""
    return writer if path in _IN_MEMORY or path.startswith("file:") else _of_file(writer)


def is_refused_write(error: DBAPIError) -> bool:
    """Whether the connection, being one for reading, refused to write."""
    orig = error.orig
    is_sqlite = getattr(orig, "sqlite_errorname", None) == "SQLITE_READONLY"
    return is_sqlite or isinstance(orig, ReadOnlySqlTransaction)


def _of_file(writer: Engine) -> Engine:
    engine = create_engine(writer.url, **SQLITE)

    def configure(connection: Any, _record: object) -> None:
        connection.isolation_level = None  # the driver would begin nothing before a query
        connection.execute("PRAGMA query_only=ON")

    def begin(connection: Connection) -> None:
        connection.exec_driver_sql("BEGIN")

    event.listen(engine, "connect", configure)
    event.listen(engine, "begin", begin)
    return engine
