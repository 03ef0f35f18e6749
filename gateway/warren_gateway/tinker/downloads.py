"""What may be downloaded without a key, by whoever has its token.

Invariants: the token is kept nowhere, its hash alone; it ends by itself, with the user that it was given to, and once they
may no longer read what it leads to.
"""

import hashlib
import secrets
import time
from dataclasses import dataclass
from functools import partial

from sqlmodel import Session, col, delete, select
from sqlmodel.sql.expression import SelectOfScalar

from warren_gateway.access.caller import Viewer
from warren_gateway.access.shared_runs import may_read
from warren_gateway.store.store import Store
from warren_gateway.store.tables import Checkpoint, Model, Run, SnapshotRow, TinkerDownload, User

LIFETIME_S = 3600.0


class NoSuchDownload(LookupError):
    """No token of this name, or it has ended."""


@dataclass(frozen=True, slots=True)
class Grant:
    token: str
    expires_s: float


class Downloads:
    def __init__(self, store: Store) -> None:
        self._store = store

    async def grant(
        self, owner: str, *, folder: str | None = None, session_id: str | None = None
    ) -> Grant:
        """For the folder of a checkpoint, or a session's timeline. Raises `StoreUnavailable`."""
        token, expires_s = secrets.token_urlsafe(32), time.time() + LIFETIME_S
        row = TinkerDownload(
            id=_hash(token), owner=owner, folder=folder, session_id=session_id, expires_s=expires_s
        )
        await self._store.transact(partial(_add, row))
        return Grant(token, expires_s)

    async def find(self, token: str) -> TinkerDownload:
        """Raises `NoSuchDownload`, `StoreUnavailable`."""
        return await self._store.read(partial(_find, _hash(token)))


def _hash(token: str) -> str:
    return hashlib.sha256(token.encode()).hexdigest()


def _add(row: TinkerDownload, session: Session) -> None:
    session.exec(delete(TinkerDownload).where(col(TinkerDownload.expires_s) < time.time()))
    session.add(row)


def _find(hashed: str, session: Session) -> TinkerDownload:
    row = session.get(TinkerDownload, hashed)
    user = session.get(User, row.owner) if row is not None else None
    if row is None or user is None or row.expires_s <= time.time():
        raise NoSuchDownload
    if user.removed_s is not None or user.disabled_s is not None:
        raise NoSuchDownload
    viewer = Viewer(user.name, sees_all=user.is_admin)
    if row.folder is not None and not _may_read(session, viewer, row.folder):
        raise NoSuchDownload
    return row


def _may_read(session: Session, viewer: Viewer, folder: str) -> bool:
    """Whether it is kept of a run of theirs, or of one that is shared with them."""
    return any(
        may_read(session, viewer, run)
        for table in (Checkpoint, SnapshotRow)
        for run in session.exec(_runs_of(table).where(col(table.url) == folder))
    )


def _runs_of(table: type[Checkpoint] | type[SnapshotRow]) -> SelectOfScalar[Run]:
    joined = select(Run).join(Model, col(Model.run_id) == col(Run.id))
    return joined.join(table, col(table.model_id) == col(Model.id))
