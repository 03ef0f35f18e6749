"""Data sets as their owners see them: uploaded, listed, shared, deleted.

Invariants
- A version is complete once its row says so, in one transaction with the end of its uploads; making it again of the
  same files gives the same version.
- A version that an unfinished run reads is kept. A deleted one is found by nobody; its files go, then its row.
"""

import asyncio
import logging
import time
from functools import partial
from pathlib import Path

from sqlmodel import Session, col, select
from sqlmodel.sql.expression import SelectOfScalar

from warren_gateway.access.caller import Viewer
from warren_gateway.datasets import folder, stored
from warren_gateway.datasets.assembling import assemble, digest_of
from warren_gateway.datasets.changing import delete_row, delete_versions, discard, share, unshare
from warren_gateway.datasets.folder import Folder
from warren_gateway.datasets.problems import FilesUnavailable, NoSuchDataset, WrongUpload
from warren_gateway.datasets.resolving import read_row, references
from warren_gateway.datasets.row_files import RowFile, RowFiles
from warren_gateway.datasets.uploads import Uploads, forget, require_space
from warren_gateway.store.store import Store
from warren_gateway.store.tables import DatasetRow
from warren_gateway.usage.limits import DEFAULT_LIMITS, OwnerLimits
from warren_schemas.config import TrainConfig
from warren_schemas.http import (
    CreateDataset,
    DatasetRows,
    DatasetSplit,
    DatasetView,
    ShareDataset,
)
from warren_schemas.ids import new_id

MOST_ANSWERED_BYTES = 32 * 1024 * 1024
"""Of rows that are asked for at once."""

log = logging.getLogger(__name__)


class Datasets:
    def __init__(
        self, store: Store, url: str, cache: Path, limits: OwnerLimits = DEFAULT_LIMITS
    ) -> None:
        """Files lie at this URL; `cache` is a folder of this gateway's own."""
        self._store = store
        self._limits = limits
        self.files = Folder(url)
        self.row_files = RowFiles(self.files, cache)
        self.uploads = Uploads(store, self.files, limits)

    async def create(self, viewer: Viewer, wanted: CreateDataset) -> tuple[DatasetView, bool]:
        """A data set of files that were uploaded, and whether it is new.

        Raises `WrongUpload`, `OverBudget`, `FilesUnavailable`, `FullFolder`, `StoreUnavailable`.
        """
        _require_distinct(wanted)
        dataset = new_id("data")
        begin = partial(_begin, viewer, dataset, wanted, self._limits)
        if known := await self._store.transact(begin):
            await self._tidy(viewer, wanted)
            return known, False
        try:
            splits = await asyncio.to_thread(self._assembled, viewer.user, dataset, wanted)
        except (WrongUpload, FilesUnavailable) as error:
            is_wrong = isinstance(error, WrongUpload)
            known = await self._drop(viewer, dataset, wanted, with_uploads=is_wrong)
            if known is not None:  # another request was faster, and took the parts
                return known, False
            raise
        row, is_new = await self._store.transact(partial(_complete, dataset, splits))
        await self._tidy(viewer, wanted, None if is_new else dataset)
        return await self._store.read(partial(_view, viewer, row)), is_new

    def _assembled(self, owner: str, dataset: str, wanted: CreateDataset) -> list[DatasetSplit]:
        return [assemble(self.files, owner, dataset, file, wanted.kind) for file in wanted.files]

    async def _tidy(
        self, viewer: Viewer, wanted: CreateDataset, doubled: str | None = None
    ) -> None:
        """The version is there, whatever this comes to: an upload of its owner's drops later what it leaves."""
        try:
            if doubled is not None:
                await self._remove_version(doubled)
            await self._remove_parts(viewer, wanted)
        except FilesUnavailable as error:
            log.warning("what is left of an upload stays for now: %s", error)

    async def _remove_parts(self, viewer: Viewer, wanted: CreateDataset) -> None:
        for file in wanted.files:
            await asyncio.to_thread(self.files.remove, folder.parts(viewer.user, file.sha256))
        sha256s = [file.sha256 for file in wanted.files]
        await self._store.transact(lambda session: forget(session, viewer.user, sha256s))

    async def _remove_version(self, dataset: str) -> None:
        """In this order, so that what is left by a failure is still known, and counts."""
        await asyncio.to_thread(self.files.remove, folder.version(dataset))
        await self._store.transact(partial(delete_row, dataset))

    async def _drop(
        self, viewer: Viewer, dataset: str, wanted: CreateDataset, *, with_uploads: bool
    ) -> DatasetView | None:
        """With the uploads where these are not what they should be; the version, if there is one by now."""
        await asyncio.to_thread(self.files.remove, folder.version(dataset))
        if with_uploads:
            await self._remove_parts(viewer, wanted)
        give_up = partial(_give_up, viewer, dataset, wanted)
        return await self._store.transact(give_up)

    async def listed(self, viewer: Viewer) -> tuple[DatasetView, ...]:
        """All versions that the viewer may read, newest first. Raises `StoreUnavailable`."""
        return await self._store.read(lambda session: stored.listed(session, viewer))

    async def show(self, viewer: Viewer, reference: str) -> DatasetView:
        """Raises `NoSuchDataset`, `StoreUnavailable`."""
        return (await self._found(viewer, reference))[1]

    async def rows(
        self, viewer: Viewer, reference: str, split: str | None, offset: int, limit: int
    ) -> DatasetRows:
        """Some rows of a split, the first one if none is named.

        Raises `NoSuchDataset`, `FilesUnavailable`, `StoreUnavailable`.
        """
        dataset, view, found = await self.split(viewer, reference, split)
        file = await self.row_files.opened(dataset, found)
        chosen = file.within(offset, limit, MOST_ANSWERED_BYTES)
        rows = await asyncio.to_thread(lambda: tuple(file.row(number) for number in chosen))
        return DatasetRows(dataset=view, split=found.name, offset=offset, rows=rows)

    async def split(
        self, viewer: Viewer, reference: str, split: str | None
    ) -> tuple[str, DatasetView, DatasetSplit]:
        """Id and view of a data set, and one of its splits. Raises `NoSuchDataset`, `StoreUnavailable`."""
        dataset, view = await self._found(viewer, reference)
        found = next((each for each in view.splits if split in (None, each.name)), None)
        if found is None:
            has = ", ".join(each.name for each in view.splits)
            raise NoSuchDataset(f"{reference} with the split {split}; it has: {has}")
        return dataset, view, found

    async def opened(self, config: TrainConfig) -> dict[str, dict[str, RowFile]]:
        """The rows of a stored config's data sets, by reference and split.

        Raises `NoSuchDataset`, `FilesUnavailable`, `StoreUnavailable`.
        """
        named = references(config)
        rows = await self._store.read(
            lambda session: {name: read_row(session, name) for name in named} if named else {}
        )
        return {
            name: {
                split.name: await self.row_files.opened(row.id, split)
                for split in stored.splits_of(row)
            }
            for name, row in rows.items()
        }

    async def delete(self, viewer: Viewer, reference: str) -> tuple[str, ...]:
        """Delete the version, or all where no digest is given; their references.

        Raises `NoSuchDataset`, `DatasetInUse`, `FilesUnavailable`, `StoreUnavailable`.
        """
        gone = await self._store.transact(partial(delete_versions, viewer, reference))
        for dataset in gone:
            await self._remove_version(dataset)
        return tuple(gone.values())

    async def share(self, viewer: Viewer, wanted: ShareDataset) -> DatasetView:
        """Sharing again changes nothing. Raises `NoSuchDataset`, `NoSuchUser`, `StoreUnavailable`."""
        return await self._store.transact(partial(share, viewer, wanted))

    async def unshare(self, viewer: Viewer, wanted: ShareDataset) -> DatasetView:
        """Raises `NoSuchDataset`, `StoreUnavailable`."""
        return await self._store.transact(partial(unshare, viewer, wanted))

    async def _found(self, viewer: Viewer, reference: str) -> tuple[str, DatasetView]:
        def look(session: Session) -> tuple[str, DatasetView]:
            row = stored.find(session, viewer, reference)
            return row.id, stored.view(session, viewer, row)

        return await self._store.read(look)


def _require_distinct(wanted: CreateDataset) -> None:
    """One upload is one file of the version, or more would be stored than was uploaded. Raises `WrongUpload`."""
    if len({file.split for file in wanted.files}) < len(wanted.files):
        raise WrongUpload("two files have the same split")
    if len({file.sha256 for file in wanted.files}) < len(wanted.files):
        raise WrongUpload("two splits have the same content; leave one out")


def _begin(
    viewer: Viewer, dataset: str, wanted: CreateDataset, limits: OwnerLimits, session: Session
) -> DatasetView | None:
    """The version if there is one; else a row, so that its files count, and are dropped if nobody completes it."""
    if (known := _known(session, viewer, wanted)) is not None:
        return known
    size_bytes = sum(file.size_bytes for file in wanted.files)
    require_space(session, viewer.user, size_bytes, limits)
    row = DatasetRow(
        id=dataset,
        owner=viewer.user,
        name=wanted.name,
        digest="",
        kind=wanted.kind.value,
        splits=[],
        size_bytes=size_bytes,
        created_s=time.time(),
    )
    session.add(row)
    return None


def _known(session: Session, viewer: Viewer, wanted: CreateDataset) -> DatasetView | None:
    digest = digest_of({file.split: file.sha256 for file in wanted.files})
    row = session.exec(_same(viewer.user, wanted.name, wanted.kind.value, digest)).first()
    return None if row is None else stored.view(session, viewer, row)


def _give_up(
    viewer: Viewer, dataset: str, wanted: CreateDataset, session: Session
) -> DatasetView | None:
    delete_row(dataset, session)
    return _known(session, viewer, wanted)


def _same(owner: str, name: str, kind: str, digest: str) -> SelectOfScalar[DatasetRow]:
    return select(DatasetRow).where(
        col(DatasetRow.is_complete),
        col(DatasetRow.owner) == owner,
        col(DatasetRow.name) == name,
        col(DatasetRow.digest) == digest,
        col(DatasetRow.kind) == kind,
    )


def _complete(
    dataset: str, splits: list[DatasetSplit], session: Session
) -> tuple[DatasetRow, bool]:
    row = session.get_one(DatasetRow, dataset, with_for_update=True)
    digest = digest_of({split.name: split.sha256 for split in splits})
    same = _same(row.owner, row.name, row.kind, digest)
    if (known := session.exec(same).first()) is not None:
        discard(row)
        return known, False
    row.digest = digest
    row.splits = [split.model_dump(mode="json") for split in splits]
    row.size_bytes = sum(split.size_bytes for split in splits)
    row.is_complete = True
    session.flush()
    return row, True


def _view(viewer: Viewer, row: DatasetRow, session: Session) -> DatasetView:
    return stored.view(session, viewer, row)
