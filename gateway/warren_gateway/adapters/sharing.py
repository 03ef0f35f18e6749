"""Sharing adapters, each in one transaction.

Invariant: whom one is shared with uses it (samples, evaluates, trains from it, downloads it) and never changes it; what
a run of theirs has begun with stays its own when the share ends.
"""

from sqlmodel import Session

from warren_gateway.access.caller import Viewer
from warren_gateway.adapters import stored
from warren_gateway.datasets import shares
from warren_gateway.store.tables import AdapterShareRow
from warren_schemas.http import AdapterView, ShareAdapter


def share(viewer: Viewer, wanted: ShareAdapter, session: Session) -> AdapterView:
    """Raises `NoSuchAdapter`, `NoSuchUser`."""
    row = stored.owned(session, viewer, wanted.adapter)[0]
    shares.share(session, AdapterShareRow, row.owner, row.name, wanted.user)
    return stored.view(session, viewer, row)


def unshare(viewer: Viewer, wanted: ShareAdapter, session: Session) -> AdapterView:
    """Raises `NoSuchAdapter`."""
    row = stored.owned(session, viewer, wanted.adapter)[0]
    shares.unshare(session, AdapterShareRow, row.owner, row.name, wanted.user)
    return stored.view(session, viewer, row)
