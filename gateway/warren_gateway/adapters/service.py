"""Adapters as their owners see them: made of what they uploaded, listed, shared, deleted.

Invariants: those of `datasets.making`; one that is served, or that a run starts from which is not over, stays.
"""

import time
from collections.abc import Callable
from functools import partial

from sqlmodel import Session, col, select

from warren_gateway.access.caller import Viewer
from warren_gateway.adapters import stored
from warren_gateway.adapters.deleting import delete_versions
from warren_gateway.adapters.files import Assembled, assemble
from warren_gateway.adapters.problems import WrongAdapter
from warren_gateway.adapters.sharing import share, unshare
from warren_gateway.base_models.problems import NoSuchBaseModel
from warren_gateway.base_models.stored import exact_name
from warren_gateway.datasets.folder import Folder
from warren_gateway.datasets.making import Making
from warren_gateway.datasets.sealed import sealed_folder
from warren_gateway.datasets.uploads import Uploads
from warren_gateway.store.store import Store
from warren_gateway.store.tables import AdapterRow
from warren_gateway.usage.limits import DEFAULT_LIMITS, OwnerLimits
from warren_schemas.adapters.config import AdapterConfig, BadAdapter, read_config
from warren_schemas.files import FolderView
from warren_schemas.http import AdapterView, CreateAdapter, ShareAdapter
from warren_schemas.ids import new_id


class Adapters:
    def __init__(
        self, store: Store, url: str, uploads: Uploads, limits: OwnerLimits = DEFAULT_LIMITS
    ) -> None:
        """Files lie at this URL, where GPU workers read them; their parts come like those of data sets."""
        self._store = store
        self._url = url.rstrip("/")
        self._files = Folder(url, "adapters")
        self.uploads = uploads
        self._making = Making(store, AdapterRow, self._files, uploads, limits, _same)

    async def create(self, viewer: Viewer, wanted: CreateAdapter) -> tuple[AdapterView, bool]:
        """An adapter of a file that was uploaded, and whether it is new.

        Raises `WrongAdapter`, `OverBudget`, `FilesUnavailable`, `FullFolder`, `StoreUnavailable`.
        """
        config = _config(wanted)
        base_model = await self._store.transact(partial(_base_model, viewer, wanted.base_model))
        row = _new_row(viewer.user, wanted, base_model, config, self._url)
        uploads, files = self.uploads.files, self._files

        def made() -> Callable[[AdapterRow], None]:
            return partial(
                _fill,
                assemble(uploads, files, viewer.user, row.id, wanted, base_model, config),
            )

        version, is_new = await self._making.make(row, [wanted.sha256], made)
        return await self._view(viewer, version), is_new

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
        return await sealed_folder(row.digest, row.url, "adapters")

    async def delete(self, viewer: Viewer, reference: str) -> tuple[str, ...]:
        """Delete the version, or all where no digest is given; their references.

        Raises `NoSuchAdapter`, `AdapterInUse`, `FilesUnavailable`, `StoreUnavailable`.
        """
        gone = await self._store.transact(partial(delete_versions, viewer, reference))
        await self._making.remove(gone)
        return tuple(gone.values())

    async def share(self, viewer: Viewer, wanted: ShareAdapter) -> AdapterView:
        """Sharing again changes nothing. Raises `NoSuchAdapter`, `NoSuchUser`, `StoreUnavailable`."""
        return await self._store.transact(partial(share, viewer, wanted))

    async def unshare(self, viewer: Viewer, wanted: ShareAdapter) -> AdapterView:
        """Raises `NoSuchAdapter`, `StoreUnavailable`."""
        return await self._store.transact(partial(unshare, viewer, wanted))


def _config(wanted: CreateAdapter) -> AdapterConfig:
    try:
        return read_config(wanted.config)
    except BadAdapter as error:
        raise WrongAdapter(str(error)) from error


def _listed(viewer: Viewer, session: Session) -> tuple[AdapterView, ...]:
    return tuple(stored.view(session, viewer, row) for row in stored.listed(session, viewer))


def _shown(viewer: Viewer, reference: str, session: Session) -> AdapterView:
    return stored.view(session, viewer, stored.find(session, viewer, reference))


def _new_row(
    owner: str, wanted: CreateAdapter, base_model: str, config: AdapterConfig, url: str
) -> AdapterRow:
    adapter = new_id("adapter")
    return AdapterRow(
        id=adapter,
        owner=owner,
        name=wanted.name,
        digest="",
        sha256=wanted.sha256,
        base_model=base_model,
        config=config.model_dump(mode="json"),
        targets=[],
        url=f"{url}/{adapter}",
        size_bytes=wanted.size_bytes,
        created_s=time.time(),
    )


def _base_model(viewer: Viewer, base_model: str, session: Session) -> str:
    """As GPU workers call it. Raises `WrongAdapter`."""
    try:
        return exact_name(session, viewer, base_model)
    except NoSuchBaseModel as error:
        raise WrongAdapter(f"base_model: there is no base model {error}") from error


def _fill(made: Assembled, row: AdapterRow) -> None:
    row.digest, row.targets, row.size_bytes = made.digest, list(made.targets), made.size_bytes


def _same(session: Session, row: AdapterRow) -> AdapterRow | None:
    alike = select(AdapterRow).where(
        col(AdapterRow.is_complete),
        col(AdapterRow.owner) == row.owner,
        col(AdapterRow.name) == row.name,
        col(AdapterRow.sha256) == row.sha256,
        col(AdapterRow.base_model) == row.base_model,
    )
    return next((each for each in session.exec(alike) if each.config == row.config), None)
