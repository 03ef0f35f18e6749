"""What may be downloaded without a key, by whoever has its token.

Invariants: the token is kept nowhere, its hash alone; it ends by itself, with the user that it was given to, with what it
leads to, and once they may no longer read that. Whoever asks needs no key, so looking costs a few rows by their keys.
"""

import hashlib
import secrets
import time
from dataclasses import dataclass
from functools import partial

from sqlmodel import Session, col, delete

from warren_gateway.access.caller import Viewer
from warren_gateway.access.shared_runs import may_read
from warren_gateway.store.store import Store
from warren_gateway.store.tables import Model, Run, TinkerDownload, User
from warren_gateway.trainable.problems import NoSuchSavedWeights
from warren_gateway.trainable.saved import find_saved
from warren_schemas.http.trainable import SavedName
from warren_schemas.ids import ModelId

LIFETIME_S = 3600.0


class NoSuchDownload(LookupError):
    """No token of this name, or it has ended."""


@dataclass(frozen=True, slots=True)
class Grant:
    token: str
    expires_s: float


@dataclass(frozen=True, slots=True)
class SavedWeightsFolder:
    """Where the files are of what is kept of a model."""

    model: ModelId
    asked: SavedName
    folder: str


class Downloads:
    def __init__(self, store: Store) -> None:
        self._store = store

    async def grant(
        self, owner: str, *, kept: SavedWeightsFolder | None = None, session_id: str | None = None
    ) -> Grant:
        """For the folder of a checkpoint, or a session's timeline. Raises `StoreUnavailable`."""
        token, expires_s = secrets.token_urlsafe(32), time.time() + LIFETIME_S
        row = TinkerDownload(
            id=_hash(token), owner=owner, session_id=session_id, expires_s=expires_s
        )
        if kept is not None:
            row.model_id, row.folder = kept.model, kept.folder
            row.kept = kept.asked.model_dump()
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
    if row.folder is not None and not _may_read(session, viewer, row):
        raise NoSuchDownload
    return row


def _may_read(session: Session, viewer: Viewer, row: TinkerDownload) -> bool:
    """Whether it is kept still, of a run of theirs, or of one that is shared with them."""
    model = session.get(Model, row.model_id or "")
    if model is None or not may_read(session, viewer, session.get_one(Run, model.run_id)):
        return False
    try:
        kept = find_saved(session, model, SavedName.model_validate(row.kept))
    except NoSuchSavedWeights:
        return False
    return kept.url == row.folder
