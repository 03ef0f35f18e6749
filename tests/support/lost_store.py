"""A database that is lost: every statement fails as over a connection that the server has closed."""

import sqlite3
from collections.abc import Generator
from contextlib import contextmanager

from sqlalchemy import Engine, event


@contextmanager
def lost_store() -> Generator[None]:
    """Of this process, until the context is left."""
    event.listen(Engine, "do_execute", _fail)
    try:
        yield
    finally:
        event.remove(Engine, "do_execute", _fail)


def _fail(*_: object) -> None:
    raise sqlite3.OperationalError("server closed the connection")
