"""What SQLite and PostgreSQL commit, counted."""

from collections.abc import Generator
from contextlib import contextmanager

from sqlalchemy import Connection, Engine, event


@contextmanager
def commits() -> Generator[list[None]]:
    """One for each commit of this process, until the context is left."""
    seen = list[None]()

    def note(_: Connection) -> None:
        seen.append(None)

    event.listen(Engine, "commit", note)
    try:
        yield seen
    finally:
        event.remove(Engine, "commit", note)
