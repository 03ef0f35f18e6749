"""SQLite for tests: what SQLAlchemy compiled for one engine holds for all, and tables are copied and not made anew.

An engine compiles each statement once and keeps it. A gateway has one engine for all its life, and tests have one
each, so most of the time of a short test would go into compiling what the test before it had compiled.
"""

import sqlite3
from contextlib import closing
from functools import cache
from typing import Any

from sqlalchemy import Connection, Engine, event
from sqlalchemy.util import LRUCache
from sqlmodel import create_engine

from warren_gateway.store import tables
from warren_gateway.store.reading import JSON_COLUMNS

N_STATEMENTS = 5000


def share_compiled() -> None:
    """From now on, for every engine of this process on SQLite. What is compiled is known by its dialect, so they share it too."""
    if not event.contains(Engine, "engine_connect", _share):
        event.listen(Engine, "engine_connect", _share)


def memory_engine() -> Engine:
    """A database in memory, with all tables and nothing in them."""
    return create_engine("sqlite://", creator=_copied)


def _share(connection: Connection) -> None:
    if connection.dialect.name == "sqlite":
        connection.dialect = _first().dialect
        connection.execution_options(compiled_cache=_statements())


@cache
def _first() -> Engine:
    """A dialect asks its first connection what the library can do. It reads JSON as that of a gateway does."""
    engine = create_engine("sqlite://", **JSON_COLUMNS)
    engine.raw_connection().close()
    return engine


@cache
def _statements() -> LRUCache[Any, Any]:
    return LRUCache(N_STATEMENTS)


def _copied() -> sqlite3.Connection:
    connection = sqlite3.connect(":memory:", check_same_thread=False)
    connection.deserialize(_empty())
    return connection


@cache
def _empty() -> bytes:
    with closing(sqlite3.connect(":memory:", check_same_thread=False)) as connection:
        tables.SQLModel.metadata.create_all(create_engine("sqlite://", creator=lambda: connection))
        return connection.serialize()
