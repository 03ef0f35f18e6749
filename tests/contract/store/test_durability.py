"""What was committed survives a power cut."""

from pathlib import Path

from sqlalchemy import text
from sqlmodel import Session

from warren_gateway.store.store import Store

FULL = 2


async def test_sqlite_writes_every_commit_through_to_the_disk(tmp_path: Path) -> None:
    store = await Store.open(f"sqlite:///{tmp_path / 'warren.db'}")

    def synchronous(session: Session) -> int:
        return session.connection().execute(text("PRAGMA synchronous")).scalar_one()

    assert await store.transact(synchronous) == FULL
    await store.close()
