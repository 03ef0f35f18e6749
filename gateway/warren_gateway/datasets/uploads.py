"""Uploads: a file comes in parts; those of rows are whole lines, and each is checked when it comes.

Invariants
- A part counts once the store says so, and parts follow each other without a gap, whichever gateway took them:
  a client that lost its connection asks how far it came and goes on from there.
- What is being uploaded counts among what its owner stores, so the limit holds before the disk is full.
- What is dropped goes by its files first and its row then, so that nothing is stored that does not count.
- What nobody went on with for a day is dropped when its owner uploads something else.
"""

import asyncio
import time
from collections.abc import Callable
from functools import partial

from sqlmodel import Session, col, delete, func, select
from sqlmodel.sql.expression import SelectOfScalar

from warren_gateway.budgets.budget import OverBudget
from warren_gateway.datasets import folder
from warren_gateway.datasets.folder import Folder
from warren_gateway.datasets.problems import OutOfOrder
from warren_gateway.store.store import Store
from warren_gateway.store.tables import DatasetRow, DatasetUploadRow
from warren_gateway.usage.limits import OwnerLimits
from warren_gateway.usage.space import lack_of_space
from warren_schemas.http import UploadProgress

FORGOTTEN_S = 86_400.0


class Uploads:
    def __init__(self, store: Store, files: Folder, limits: OwnerLimits) -> None:
        self._store = store
        self.files = files
        self._limits = limits

    async def progress(self, owner: str, sha256: str) -> UploadProgress:
        """How much of this file has come. Raises `StoreUnavailable`."""
        return await self._store.read(partial(_progress, owner, sha256))

    async def take(
        self,
        owner: str,
        sha256: str,
        *,
        offset: int,
        data: bytes,
        check: Callable[[bytes], None] | None = None,
    ) -> UploadProgress:
        """Take in a part; one that has come before changes nothing. `check` raises `WrongUpload`, in a thread.

        Raises `OutOfOrder`, `WrongUpload`, `OverBudget`, `FilesUnavailable`, `FullFolder`, `StoreUnavailable`.
        """
        known = await self._store.transact(partial(self._room_for, owner, sha256, len(data)))
        if known.received_bytes >= offset + len(data):
            return known
        if known.received_bytes != offset:
            raise OutOfOrder(known)
        if offset == 0:
            await self._drop_forgotten(owner)
        if check is not None:
            await asyncio.to_thread(check, data)
        await asyncio.to_thread(self.files.write, folder.part(owner, sha256, offset), data)
        return await self._store.transact(partial(_note, owner, sha256, offset, len(data)))

    def _room_for(self, owner: str, sha256: str, n_bytes: int, session: Session) -> UploadProgress:
        require_space(session, owner, uploading_bytes(session, owner) + n_bytes, self._limits)
        return _progress(owner, sha256, session)

    async def _drop_forgotten(self, owner: str) -> None:
        before_s = time.time() - FORGOTTEN_S
        names = await self._store.transact(partial(_forgotten, owner, before_s))
        for name in names:
            await asyncio.to_thread(self.files.remove, name)
        await self._store.transact(partial(_forget_old, owner, before_s, names))


def require_space(session: Session, owner: str, n_bytes: int, limits: OwnerLimits) -> None:
    """For so much more than what is stored; of two who ask at once one sees the other's. Raises `OverBudget`."""
    if (reason := lack_of_space(session, owner, n_bytes, limits, is_alone=True)) is not None:
        raise OverBudget(reason)


def uploading_bytes(session: Session, owner: str) -> int:
    query = select(func.coalesce(func.sum(col(DatasetUploadRow.received_bytes)), 0))
    return int(session.exec(query.where(col(DatasetUploadRow.owner) == owner)).one())


def _progress(owner: str, sha256: str, session: Session) -> UploadProgress:
    row = session.get(DatasetUploadRow, (owner, sha256))
    return UploadProgress(sha256=sha256, received_bytes=0 if row is None else row.received_bytes)


def _note(owner: str, sha256: str, offset: int, n_bytes: int, session: Session) -> UploadProgress:
    row = session.get(DatasetUploadRow, (owner, sha256), with_for_update=True)
    if row is None:
        row = DatasetUploadRow(owner=owner, sha256=sha256, received_bytes=0, touched_s=time.time())
        session.add(row)
    if row.received_bytes == offset:
        row.received_bytes += n_bytes
    row.touched_s = time.time()
    if row.received_bytes != offset + n_bytes:  # another client was faster, with other parts
        raise OutOfOrder(UploadProgress(sha256=sha256, received_bytes=row.received_bytes))
    return UploadProgress(sha256=sha256, received_bytes=row.received_bytes)


def _forgotten(owner: str, before_s: float, session: Session) -> list[str]:
    """The names of their folders."""
    uploads, halves = _old(owner, before_s)
    return [
        *(folder.parts(owner, row.sha256) for row in session.exec(uploads)),
        *(folder.version(row.id) for row in session.exec(halves)),
    ]


def _forget_old(owner: str, before_s: float, names: list[str], session: Session) -> None:
    """Those whose folders of these names are gone, and that nobody went on with meanwhile."""
    uploads, halves = _old(owner, before_s)
    for upload in session.exec(uploads):
        if folder.parts(owner, upload.sha256) in names:
            session.delete(upload)
    for half in session.exec(halves):
        if folder.version(half.id) in names:
            session.delete(half)


def _old(
    owner: str, before_s: float
) -> tuple[SelectOfScalar[DatasetUploadRow], SelectOfScalar[DatasetRow]]:
    uploads = select(DatasetUploadRow).where(
        col(DatasetUploadRow.owner) == owner, col(DatasetUploadRow.touched_s) < before_s
    )
    halves = select(DatasetRow).where(
        col(DatasetRow.owner) == owner,
        col(DatasetRow.is_complete).is_(False),
        col(DatasetRow.created_s) < before_s,
    )
    return uploads, halves


def forget(session: Session, owner: str, sha256s: list[str]) -> None:
    """They are files of a version by now."""
    session.exec(
        delete(DatasetUploadRow).where(
            col(DatasetUploadRow.owner) == owner, col(DatasetUploadRow.sha256).in_(sha256s)
        )
    )
