"""Base models of users in the store: what a viewer may use of them, found by reference or by the workers' name.

Invariant: a base model is its owner's and the admins', and those may use it whom it is shared with. For others it does
not exist, under whichever of its names they ask for it.
"""

from sqlalchemy import ColumnElement
from sqlmodel import Session, col, select

from warren_gateway.access.caller import Viewer
from warren_gateway.base_models.problems import NoSuchBaseModel
from warren_gateway.datasets import shares
from warren_gateway.datasets.versions import find_for_use, find_version, owned_versions
from warren_gateway.store.tables import BaseModelRow, BaseModelShareRow
from warren_schemas.base_models.names import is_reference, is_uploaded
from warren_schemas.config.numbers import is_dataset_reference
from warren_schemas.datasets.names import exact
from warren_schemas.http import BaseModelView

MOST_LISTED = 1000
_PREFIX = "warren/"


def exact_name(session: Session, viewer: Viewer, base_model: str, *, for_use: bool = False) -> str:
    """What GPU workers call it; any name but those of uploaded ones is passed on as it is. `for_use`: the row is
    locked, so that nobody deletes it before it is said to be used.

    Raises `NoSuchBaseModel`.
    """
    if is_reference(base_model):
        reference = base_model.removeprefix("@")
        if not is_dataset_reference(reference):
            raise NoSuchBaseModel(reference)
        return worker_name(find(session, viewer, reference, for_use=for_use))
    if is_uploaded(base_model):
        _require_readable(session, viewer, base_model, for_use=for_use)
    return base_model


def find(
    session: Session, viewer: Viewer, reference: str, *, for_use: bool = False
) -> BaseModelRow:
    """The version that the reference means: the newest, unless it has a digest. Raises `NoSuchBaseModel`."""
    seen, found = readable_by(viewer), find_for_use if for_use else find_version
    return found(session, BaseModelRow, viewer, reference, seen=seen, missing=NoSuchBaseModel)


def _require_readable(session: Session, viewer: Viewer, base_model: str, *, for_use: bool) -> None:
    query = select(BaseModelRow).where(
        col(BaseModelRow.id) == base_model.removeprefix(_PREFIX), readable_by(viewer)
    )
    if session.exec(query.with_for_update() if for_use else query).first() is None:
        raise NoSuchBaseModel(base_model)


def owned(session: Session, viewer: Viewer, reference: str) -> list[BaseModelRow]:
    """The versions that the reference means, all without a digest, the newest first, locked; for who may change them.

    Raises `NoSuchBaseModel`.
    """
    return owned_versions(session, BaseModelRow, viewer, reference, NoSuchBaseModel)


def listed(session: Session, viewer: Viewer) -> list[BaseModelRow]:
    """All versions that the viewer may use, newest first."""
    newest = select(BaseModelRow).where(readable_by(viewer))
    newest = newest.order_by(col(BaseModelRow.created_s).desc(), col(BaseModelRow.id).desc())
    return list(session.exec(newest.limit(MOST_LISTED)))


def readable_by(viewer: Viewer) -> ColumnElement[bool]:
    """The condition of a query: the viewer may use this version, which is complete."""
    return shares.readable_by(BaseModelRow, BaseModelShareRow, viewer)


def worker_name(row: BaseModelRow) -> str:
    return f"{_PREFIX}{row.id}"


def reference_of(row: BaseModelRow) -> str:
    """It means this version, whoever says it."""
    return exact(row.owner, row.name, row.digest)


def view(session: Session, viewer: Viewer, row: BaseModelRow) -> BaseModelView:
    """With whom it is shared is told to those who may change that."""
    shared_with = shares.shared_with(session, BaseModelShareRow, viewer, row.owner, row.name)
    return BaseModelView(
        reference=reference_of(row),
        owner=row.owner,
        name=row.name,
        digest=row.digest,
        base_model=worker_name(row),
        architecture=row.architecture,
        n_parameters=row.n_parameters,
        size_bytes=row.size_bytes,
        created_s=row.created_s,
        shared_with=tuple(shared_with),
    )
