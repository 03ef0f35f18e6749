"""Adapters as their owners see them: made of what they uploaded, listed, shared, deleted.

Invariants
- A version is complete once its row says so, after its files are sealed; making it again of the same file and config
  gives the same version.
- What is being made counts among what its owner stores; what is dropped goes by its files first and its row then.
- One that is served, or that a run starts from which is not over, stays.
"""

import asyncio
import logging
import time
from functools import partial

from sqlmodel import Session, col, select

from warren_gateway.access.caller import Viewer
from warren_gateway.adapters import stored
from warren_gateway.adapters.deleting import delete_row, delete_versions, discard
from warren_gateway.adapters.files import Assembled, assemble
from warren_gateway.adapters.problems import WrongAdapter
from warren_gateway.adapters.sharing import share, unshare
from warren_gateway.datasets import folder
from warren_gateway.datasets.folder import Folder
from warren_gateway.datasets.problems import FilesUnavailable
from warren_gateway.datasets.uploads import FORGOTTEN_S, Uploads, forget, require_space
from warren_gateway.folders import UnreadableFolder, read_folder
from warren_gateway.store.store import Store
from warren_gateway.store.tables import AdapterRow
from warren_gateway.usage.limits import DEFAULT_LIMITS, OwnerLimits
from warren_schemas.adapters.config import AdapterConfig, BadAdapter, read_config
from warren_schemas.files import FolderView, NamedFolder
from warren_schemas.http import AdapterView, CreateAdapter, ShareAdapter
from warren_schemas.ids import new_id

log = logging.getLogger(__name__)


class Adapters:
    def __init__(
        self, store: Store, url: str, uploads: Uploads, limits: OwnerLimits = DEFAULT_LIMITS
    ) -> None:
        """Files lie at this URL, where GPU workers read them; their parts come like those of data sets."""
        self._store = store
        self._url = url.rstrip("/")
        self._limits = limits
        self._files = Folder(url, "adapters")
        self.uploads = uploads

    async def create(self, viewer: Viewer, wanted: CreateAdapter) -> tuple[AdapterView, bool]:
        """An adapter of a file that was uploaded, and whether it is new.

        Raises `WrongAdapter`, `OverBudget`, `FilesUnavailable`, `FullFolder`, `StoreUnavailable`.
        """
        config = _config(wanted)
        await self._drop_forgotten(viewer.user)
        row = _new_row(viewer.user, wanted, config, self._url)
        known = await self._store.transact(partial(_begin, row, self._limits))
        if known is not None:
            await self._tidy(viewer.user, wanted.sha256)
            return await self._view(viewer, known), False
        made, is_new = await self._made(viewer.user, row.id, wanted, config)
        return await self._view(viewer, made), is_new

    async def _made(
        self, owner: str, adapter: str, wanted: CreateAdapter, config: AdapterConfig
    ) -> tuple[AdapterRow, bool]:
        try:
            made = await asyncio.to_thread(
                assemble, self.uploads.files, self._files, owner, adapter, wanted, config
            )
        except (WrongAdapter, FilesUnavailable) as error:
            known = await self._give_up(adapter)
            if known is not None:  # another request was faster, and took the parts
                return known, False
            if isinstance(error, WrongAdapter):
                await self._tidy(owner, wanted.sha256)
            raise
        row, is_new = await self._store.transact(partial(_complete, adapter, made))
        await self._tidy(owner, wanted.sha256, None if is_new else adapter)
        return row, is_new

    async def _view(self, viewer: Viewer, row: AdapterRow) -> AdapterView:
        return await self._store.read(lambda session: stored.view(session, viewer, row))

    async def listed(self, viewer: Viewer) -> tuple[AdapterView, ...]:
        """All versions that the viewer may use, newest first. Raises `StoreUnavailable`."""
        return await self._store.read(partial(_listed, viewer))

    async def show(self, viewer: Viewer, reference: str) -> AdapterView:
        """Raises `NoSuchAdapter`, `StoreUnavailable`."""
        return await self._store.read(partial(_shown, viewer, reference))

    async def folder(self, viewer: Viewer, reference: str) -> FolderView:
        """The files of a version, as they were sealed. Raises `NoSuchAdapter`, `FilesUnavailable`, `StoreUnavailable`."""
        row = await self._store.read(lambda session: stored.find(session, viewer, reference))
        try:
            return await read_folder(NamedFolder(row.digest, row.url))
        except UnreadableFolder as error:
            raise FilesUnavailable(str(error), "adapters") from error

    async def delete(self, viewer: Viewer, reference: str) -> tuple[str, ...]:
        """Delete the version, or all where no digest is given; their references.

        Raises `NoSuchAdapter`, `AdapterInUse`, `FilesUnavailable`, `StoreUnavailable`.
        """
        gone = await self._store.transact(partial(delete_versions, viewer, reference))
        for adapter in gone:
            await self._remove(adapter)
        return tuple(gone.values())

    async def share(self, viewer: Viewer, wanted: ShareAdapter) -> AdapterView:
        """Sharing again changes nothing. Raises `NoSuchAdapter`, `NoSuchUser`, `StoreUnavailable`."""
        return await self._store.transact(partial(share, viewer, wanted))

    async def unshare(self, viewer: Viewer, wanted: ShareAdapter) -> AdapterView:
        """Raises `NoSuchAdapter`, `StoreUnavailable`."""
        return await self._store.transact(partial(unshare, viewer, wanted))

    async def _remove(self, adapter: str) -> None:
        await asyncio.to_thread(self._files.remove, adapter)
        await self._store.transact(partial(delete_row, adapter))

    async def _give_up(self, adapter: str) -> AdapterRow | None:
        """The same adapter, if there is one by now."""
        await asyncio.to_thread(self._files.remove, adapter)
        return await self._store.transact(partial(_forgo, adapter))

    async def _tidy(self, owner: str, sha256: str, doubled: str | None = None) -> None:
        """The version is there, or is none, whatever this comes to: what is left is dropped after a day."""
        try:
            if doubled is not None:
                await self._remove(doubled)
            await asyncio.to_thread(self.uploads.files.remove, folder.parts(owner, sha256))
            await self._store.transact(lambda session: forget(session, owner, [sha256]))
        except FilesUnavailable as error:
            log.warning("what is left of an upload stays for now: %s", error)

    async def _drop_forgotten(self, owner: str) -> None:
        before_s = time.time() - FORGOTTEN_S
        for adapter in await self._store.read(partial(_forgotten, owner, before_s)):
            await self._remove(adapter)


def _config(wanted: CreateAdapter) -> AdapterConfig:
    try:
        return read_config(wanted.config)
    except BadAdapter as error:
        raise WrongAdapter(str(error)) from error


def _listed(viewer: Viewer, session: Session) -> tuple[AdapterView, ...]:
    return tuple(stored.view(session, viewer, row) for row in stored.listed(session, viewer))


def _shown(viewer: Viewer, reference: str, session: Session) -> AdapterView:
    return stored.view(session, viewer, stored.find(session, viewer, reference))


def _new_row(owner: str, wanted: CreateAdapter, config: AdapterConfig, url: str) -> AdapterRow:
    adapter = new_id("adapter")
    return AdapterRow(
        id=adapter,
        owner=owner,
        name=wanted.name,
        digest="",
        sha256=wanted.sha256,
        base_model=wanted.base_model,
        config=config.model_dump(mode="json"),
        targets=[],
        url=f"{url}/{adapter}",
        size_bytes=wanted.size_bytes,
        created_s=time.time(),
    )


def _begin(row: AdapterRow, limits: OwnerLimits, session: Session) -> AdapterRow | None:
    """The version if there is one; else a row, so that its files count."""
    if (known := _same(session, row)) is None:
        require_space(session, row.owner, row.size_bytes, limits)
        session.add(row)
        session.flush()
    return known


def _forgo(adapter: str, session: Session) -> AdapterRow | None:
    row = session.get_one(AdapterRow, adapter)
    known = _same(session, row)
    session.delete(row)
    return known


def _complete(adapter: str, made: Assembled, session: Session) -> tuple[AdapterRow, bool]:
    row = session.get_one(AdapterRow, adapter, with_for_update=True)
    if (known := _same(session, row)) is not None:
        discard(row)
        return known, False
    row.digest, row.targets, row.size_bytes = made.digest, list(made.targets), made.size_bytes
    row.is_complete = True
    session.flush()
    return row, True


def _same(session: Session, row: AdapterRow) -> AdapterRow | None:
    alike = select(AdapterRow).where(
        col(AdapterRow.is_complete),
        col(AdapterRow.owner) == row.owner,
        col(AdapterRow.name) == row.name,
        col(AdapterRow.sha256) == row.sha256,
        col(AdapterRow.base_model) == row.base_model,
    )
    return next((each for each in session.exec(alike) if each.config == row.config), None)


def _forgotten(owner: str, before_s: float, session: Session) -> list[str]:
    query = select(AdapterRow.id).where(
        col(AdapterRow.owner) == owner,
        col(AdapterRow.is_complete).is_(False),
        col(AdapterRow.created_s) < before_s,
    )
    return list(session.exec(query))
