"""Adapters in the store: what a viewer may see of them, found by reference.

Invariant: an adapter is its owner's and the admins', and those may use it whom it is shared with; for others it does not exist.
"""

from sqlalchemy import ColumnElement
from sqlmodel import Session, col, select

from warren_gateway.access.caller import Viewer
from warren_gateway.adapters.problems import NoSuchAdapter
from warren_gateway.datasets import shares
from warren_gateway.datasets.versions import find_for_use, find_version, owned_versions
from warren_gateway.store.tables import AdapterRow, AdapterShareRow
from warren_schemas.adapters.config import AdapterConfig
from warren_schemas.datasets.names import exact
from warren_schemas.episode import PolicyRef
from warren_schemas.http import AdapterView
from warren_schemas.ids import ModelId

MOST_LISTED = 1000
VERSION = 1
"""Of the policy that an adapter is: 0 would be the base model."""


def find(session: Session, viewer: Viewer, reference: str, *, for_use: bool = False) -> AdapterRow:
    """The version that the reference means: the newest, unless it has a digest. `for_use`: locked, so that nobody
    deletes it before it is said to be used.

    Raises `NoSuchAdapter`.
    """
    seen, found = readable_by(viewer), find_for_use if for_use else find_version
    return found(session, AdapterRow, viewer, reference, seen=seen, missing=NoSuchAdapter)


def owned(session: Session, viewer: Viewer, reference: str) -> list[AdapterRow]:
    """The versions that the reference means, all without a digest, the newest first, locked; for who may change them.

    Raises `NoSuchAdapter`.
    """
    return owned_versions(session, AdapterRow, viewer, reference, NoSuchAdapter)


def listed(session: Session, viewer: Viewer) -> list[AdapterRow]:
    """All versions that the viewer may use, newest first."""
    newest = select(AdapterRow).where(readable_by(viewer)).order_by(col(AdapterRow.id).desc())
    return list(session.exec(newest.limit(MOST_LISTED)))


def readable_by(viewer: Viewer) -> ColumnElement[bool]:
    """The condition of a query: the viewer may use this version, which is complete."""
    return shares.readable_by(AdapterRow, AdapterShareRow, viewer)


def is_readable(session: Session, viewer: Viewer, adapter: str) -> bool:
    """Whether the viewer may use the version of this id."""
    query = select(AdapterRow.id).where(col(AdapterRow.id) == adapter, readable_by(viewer))
    return session.exec(query).first() is not None


def reference_of(row: AdapterRow) -> str:
    """It means this version, whoever says it."""
    return exact(row.owner, row.name, row.digest)


def policy_of(row: AdapterRow) -> PolicyRef:
    """The adapter as samplers know policies."""
    return PolicyRef(
        model=ModelId(row.id),
        base_model=row.base_model,
        min_version=VERSION,
        url=row.url,
        pinned=True,
    )


def view(session: Session, viewer: Viewer, row: AdapterRow) -> AdapterView:
    """With whom it is shared is told to those who may change that."""
    shared_with = shares.shared_with(session, AdapterShareRow, viewer, row.owner, row.name)
    config = AdapterConfig.model_validate(row.config)
    return AdapterView(
        reference=reference_of(row),
        owner=row.owner,
        name=row.name,
        digest=row.digest,
        base_model=row.base_model,
        rank=config.rank,
        alpha=config.alpha,
        targets=tuple(row.targets),
        size_bytes=row.size_bytes,
        created_s=row.created_s,
        shared_with=tuple(shared_with),
    )
