"""Versions of adapters and base models, made of what was uploaded.

Invariants
- A version is complete once its row says so, after its files are sealed; making it again of the same files gives the
  same version.
- What is being made counts among what its owner stores; what is dropped goes by its files first and its row then.
- What a gateway that died has left is found by nobody, and goes when its owner makes another after a day.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Generic, TypeVar

from sqlmodel import Session, col, delete, select

from warren_gateway.datasets import folder
from warren_gateway.datasets.folder import Folder
from warren_gateway.datasets.problems import FilesUnavailable
from warren_gateway.datasets.uploads import FORGOTTEN_S, Uploads, forget, require_space
from warren_gateway.store.store import Store
from warren_gateway.store.tables import AdapterRow, BaseModelRow
from warren_gateway.usage.limits import OwnerLimits

log = logging.getLogger(__name__)

RowT = TypeVar("RowT", AdapterRow, BaseModelRow)
Same = Callable[[Session, RowT], RowT | None]
"""The complete version that is made of the same."""
Fill = Callable[[RowT], None]
"""Write into the row what its files have told."""


class Making(Generic[RowT]):
    def __init__(
        self,
        store: Store,
        table: type[RowT],
        files: Folder,
        uploads: Uploads,
        limits: OwnerLimits,
        same: Same[RowT],
    ) -> None:
        """`files` has a folder for each version, named by its id."""
        self._store = store
        self._table = table
        self._files = files
        self._uploads = uploads
        self._limits = limits
        self._same: Same[RowT] = same

    async def make(
        self, row: RowT, sha256s: Sequence[str], assemble: Callable[[], Fill[RowT]]
    ) -> tuple[RowT, bool]:
        """The version, and whether it is new. `assemble` writes its files and blocks.

        Raises `OverBudget`, `FilesUnavailable`, `FullFolder`, `StoreUnavailable`, and what `assemble` raises for files
        that are not what they should be, a `ValueError`; these are dropped.
        """
        owner, version = row.owner, row.id
        await self._drop_forgotten(owner)
        if (known := await self._store.transact(partial(self._begin, row))) is not None:
            await self._tidy(owner, sha256s)
            return known, False
        try:
            fill = await asyncio.to_thread(assemble)
        except (ValueError, FilesUnavailable) as error:
            known = await self._give_up(version)
            if known is not None:  # another request was faster, and took the parts
                return known, False
            if isinstance(error, ValueError):
                await self._tidy(owner, sha256s)
            raise
        made, is_new = await self._store.transact(partial(self._complete, version, fill))
        await self._tidy(owner, sha256s, None if is_new else version)
        return made, is_new

    async def remove(self, versions: Iterable[str]) -> None:
        """Of these, which nobody finds any more, the files and then the rows."""
        for version in versions:
            await asyncio.to_thread(self._files.remove, version)
            await self._store.transact(partial(self._delete, version))

    def _begin(self, row: RowT, session: Session) -> RowT | None:
        """The version if there is one; else a row, so that its files count."""
        if (known := self._same(session, row)) is None:
            require_space(session, row.owner, row.size_bytes, self._limits)
            session.add(row)
            session.flush()
        return known

    def _complete(self, version: str, fill: Fill[RowT], session: Session) -> tuple[RowT, bool]:
        row = session.get_one(self._table, version, with_for_update=True)
        if (known := self._same(session, row)) is not None:
            discard(row)
            return known, False
        fill(row)
        row.is_complete = True
        session.flush()
        return row, True

    async def _give_up(self, version: str) -> RowT | None:
        """The same version, if there is one by now."""
        await asyncio.to_thread(self._files.remove, version)
        return await self._store.transact(partial(self._forgo, version))

    def _forgo(self, version: str, session: Session) -> RowT | None:
        row = session.get_one(self._table, version)
        known = self._same(session, row)
        session.delete(row)
        return known

    def _delete(self, version: str, session: Session) -> None:
        session.exec(delete(self._table).where(col(self._table.id) == version))

    async def _tidy(self, owner: str, sha256s: Sequence[str], doubled: str | None = None) -> None:
        """The version is there, or is none, whatever this comes to: what is left is dropped after a day."""
        try:
            if doubled is not None:
                await self.remove([doubled])
            for sha256 in sha256s:
                await asyncio.to_thread(self._uploads.files.remove, folder.parts(owner, sha256))
            await self._store.transact(lambda session: forget(session, owner, list(sha256s)))
        except FilesUnavailable as error:
            log.warning("what is left of an upload stays for now: %s", error)

    async def _drop_forgotten(self, owner: str) -> None:
        before_s = time.time() - FORGOTTEN_S
        await self.remove(await self._store.read(partial(self._forgotten, owner, before_s)))

    def _forgotten(self, owner: str, before_s: float, session: Session) -> list[str]:
        query = select(self._table.id).where(
            col(self._table.owner) == owner,
            col(self._table.is_complete).is_(False),
            col(self._table.created_s) < before_s,
        )
        return list(session.exec(query))


def discard(row: AdapterRow | BaseModelRow) -> None:
    """It does not exist, and counts as stored until its files are gone; its owner's next one sees to what is left."""
    row.is_complete, row.created_s = False, 0.0
