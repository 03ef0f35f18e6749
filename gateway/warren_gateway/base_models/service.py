"""Base models as their owners see them: made of what they uploaded, listed, shared, deleted.

Invariants: those of `datasets.making`; one that a run uses which is not over stays. An operator says how large one may
be, and with 0 that there are none.
"""

import hashlib
import time
from collections.abc import Callable
from functools import partial

from sqlmodel import Session, col, select

from warren_gateway.access.caller import Viewer
from warren_gateway.base_models import stored
from warren_gateway.base_models.deleting import delete_versions
from warren_gateway.base_models.files import Assembled, assemble, check_listed, digest_seal
from warren_gateway.base_models.problems import NoBaseModels
from warren_gateway.datasets import shares
from warren_gateway.datasets.folder import Folder
from warren_gateway.datasets.making import Making
from warren_gateway.datasets.sealed import sealed_folder
from warren_gateway.datasets.uploads import Uploads
from warren_gateway.store.store import Store
from warren_gateway.store.tables import BaseModelRow, BaseModelShareRow
from warren_gateway.usage.limits import DEFAULT_LIMITS, OwnerLimits
from warren_schemas.base_models.names import folder_name, new_name
from warren_schemas.files import FolderView
from warren_schemas.http import BaseModelView, CreateBaseModel, ShareBaseModel

GIB = 1024**3
MOST_GIB = 32.0


class BaseModels:
    def __init__(
        self,
        store: Store,
        url: str,
        uploads: Uploads,
        limits: OwnerLimits = DEFAULT_LIMITS,
        most_gib: float = MOST_GIB,
    ) -> None:
        """Files lie at this URL, where GPU workers read them; their parts come like those of data sets."""
        self._store = store
        self._most_bytes = int(most_gib * GIB)
        files = Folder(url.rstrip("/"), "base models")
        self._files = files
        self.uploads = uploads
        self._making = Making(store, BaseModelRow, files, uploads, limits, _same)

    def require_taken(self, size_bytes: int = 1) -> None:
        """Raises `NoBaseModels`."""
        if self._most_bytes == 0:
            raise NoBaseModels("This gateway takes no base models of users")
        if size_bytes > self._most_bytes:
            raise NoBaseModels(
                f"The base model has {size_bytes / GIB:.3g} GiB, and this gateway takes"
                f" {self._most_bytes / GIB:.3g}"
            )

    async def create(self, viewer: Viewer, wanted: CreateBaseModel) -> tuple[BaseModelView, bool]:
        """A base model of files that were uploaded, and whether it is new.

        Raises `NoBaseModels`, `WrongBaseModel`, `OverBudget`, `FilesUnavailable`, `FullFolder`, `StoreUnavailable`.
        """
        self.require_taken(wanted.size_bytes)
        check_listed(wanted)
        row = _new_row(viewer.user, wanted)
        uploads, files = self.uploads.files, self._files

        def made() -> Callable[[BaseModelRow], None]:
            return partial(_fill, assemble(uploads, files, viewer.user, row.id, wanted))

        sha256s = [file.sha256 for file in wanted.files]
        version, is_new = await self._making.make(row, sha256s, made)
        view = await self._store.read(lambda session: stored.view(session, viewer, version))
        return view, is_new

    async def listed(self, viewer: Viewer) -> tuple[BaseModelView, ...]:
        """All versions that the viewer may use, newest first. Raises `StoreUnavailable`."""
        return await self._store.read(partial(_listed, viewer))

    async def show(self, viewer: Viewer, reference: str) -> BaseModelView:
        """Raises `NoSuchBaseModel`, `StoreUnavailable`."""
        return await self._store.read(partial(_shown, viewer, reference))

    async def folder(self, viewer: Viewer, reference: str) -> FolderView:
        """The files of a version, as they were sealed. Raises `NoSuchBaseModel`, `FilesUnavailable`, `StoreUnavailable`."""
        row = await self._store.read(lambda session: stored.find(session, viewer, reference))
        return await sealed_folder(row.digest, self._files.url(row.id), "base models")

    async def delete(self, viewer: Viewer, reference: str) -> tuple[str, ...]:
        """Delete the version, or all where no digest is given; their references.

        Raises `NoSuchBaseModel`, `BaseModelInUse`, `FilesUnavailable`, `StoreUnavailable`.
        """
        gone = await self._store.transact(partial(delete_versions, viewer, reference))
        await self._making.remove(gone)
        return tuple(gone.values())

    async def share(self, viewer: Viewer, wanted: ShareBaseModel) -> BaseModelView:
        """Sharing again changes nothing. Raises `NoSuchBaseModel`, `NoSuchUser`, `StoreUnavailable`."""
        return await self._store.transact(partial(_share, viewer, wanted))

    async def unshare(self, viewer: Viewer, wanted: ShareBaseModel) -> BaseModelView:
        """Raises `NoSuchBaseModel`, `StoreUnavailable`."""
        return await self._store.transact(partial(_unshare, viewer, wanted))


def _new_row(owner: str, wanted: CreateBaseModel) -> BaseModelRow:
    digest = hashlib.sha256(digest_seal(wanted)).hexdigest()
    return BaseModelRow(
        id=folder_name(new_name(digest)),
        owner=owner,
        name=wanted.name,
        digest=digest,
        size_bytes=wanted.size_bytes,
        created_s=time.time(),
    )


def _fill(made: Assembled, row: BaseModelRow) -> None:
    row.architecture, row.n_parameters = made.architecture, made.n_parameters


def _same(session: Session, row: BaseModelRow) -> BaseModelRow | None:
    alike = select(BaseModelRow).where(
        col(BaseModelRow.is_complete),
        col(BaseModelRow.owner) == row.owner,
        col(BaseModelRow.name) == row.name,
        col(BaseModelRow.digest) == row.digest,
    )
    return session.exec(alike).first()


def _listed(viewer: Viewer, session: Session) -> tuple[BaseModelView, ...]:
    return tuple(stored.view(session, viewer, row) for row in stored.listed(session, viewer))


def _shown(viewer: Viewer, reference: str, session: Session) -> BaseModelView:
    return stored.view(session, viewer, stored.find(session, viewer, reference))


def _share(viewer: Viewer, wanted: ShareBaseModel, session: Session) -> BaseModelView:
    row = stored.owned(session, viewer, wanted.base_model)[0]
    shares.share(session, BaseModelShareRow, row.owner, row.name, wanted.user)
    return stored.view(session, viewer, row)


def _unshare(viewer: Viewer, wanted: ShareBaseModel, session: Session) -> BaseModelView:
    row = stored.owned(session, viewer, wanted.base_model)[0]
    shares.unshare(session, BaseModelShareRow, row.owner, row.name, wanted.user)
    return stored.view(session, viewer, row)
