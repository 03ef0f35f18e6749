"""Runs that are shared, with a user or with everybody; and the list of all that is, what users upload too.

Invariants
- Sharing lets others read a run, and use what it made: nobody but its owner and admins changes it, whoever
  it is shared with. A run that is not shared with a viewer does not exist for them.
- A share ends with the run; who may read is asked of the store each time, so unsharing acts at once.
"""

import time
from functools import partial

from sqlmodel import Session, col, select

from warren_gateway.access.caller import Viewer
from warren_gateway.access.callers import Callers
from warren_gateway.access.rows import require_user
from warren_gateway.access.shared_runs import EVERYBODY
from warren_gateway.datasets import shares
from warren_gateway.runs.owned import NoSuchRun, owned_run
from warren_gateway.store.store import Store
from warren_gateway.store.tables import (
    AdapterShareRow,
    BaseModelShareRow,
    DatasetShareRow,
    Run,
    ShareRow,
)
from warren_schemas.ids import RunId
from warren_schemas.users.access import ShareKind, ShareRun, ShareView

MOST_LISTED = 1000
"""Of each kind."""


class Sharing:
    def __init__(self, store: Store, callers: Callers) -> None:
        self._store = store
        self._callers = callers

    async def share(self, viewer: Viewer, run: str, wanted: ShareRun) -> ShareView:
        """Sharing again changes nothing. Raises `NoSuchRun`, `NoSuchUser`, `StoreUnavailable`."""
        return await self._store.transact(partial(_share, viewer, run, wanted))

    async def unshare(self, viewer: Viewer, run: str, wanted: ShareRun) -> tuple[ShareView, ...]:
        """With whom the run is shared from now on. What others read of it ends.

        Raises `NoSuchRun`, `StoreUnavailable`.
        """
        left = await self._store.transact(partial(_unshare, viewer, run, wanted))
        self._callers.forget()
        return left

    async def listed(self, viewer: Viewer) -> tuple[ShareView, ...]:
        """Given by this user or to them, by kind, of each the newest first; to an admin all."""
        return await self._store.read(partial(_listed, viewer))


def _share(viewer: Viewer, run: str, wanted: ShareRun, session: Session) -> ShareView:
    row = _own(session, viewer, run)
    if wanted.user is not None:
        require_user(session, wanted.user)
    share = session.get(ShareRow, (row.id, wanted.user or EVERYBODY))
    if share is None:
        share = ShareRow(run_id=row.id, user=wanted.user or EVERYBODY, created_s=time.time())
        session.add(share)
    return _view(share, row)


def _unshare(viewer: Viewer, run: str, wanted: ShareRun, session: Session) -> tuple[ShareView, ...]:
    row = _own(session, viewer, run)
    share = session.get(ShareRow, (row.id, wanted.user or EVERYBODY))
    if share is not None:
        session.delete(share)
        session.flush()
    left = session.exec(select(ShareRow).where(col(ShareRow.run_id) == row.id))
    return tuple(_view(share, row) for share in left)


def _listed(viewer: Viewer, session: Session) -> tuple[ShareView, ...]:
    uploaded = {
        ShareKind.DATASET: shares.listed(session, DatasetShareRow, viewer, MOST_LISTED),
        ShareKind.ADAPTER: shares.listed(session, AdapterShareRow, viewer, MOST_LISTED),
        ShareKind.BASE_MODEL: shares.listed(session, BaseModelShareRow, viewer, MOST_LISTED),
    }
    views = [_of_upload(kind, row) for kind, rows in uploaded.items() for row in rows]
    return (*_of_runs(viewer, session), *views)


def _of_runs(viewer: Viewer, session: Session) -> tuple[ShareView, ...]:
    query = select(ShareRow, Run).join(Run, col(Run.id) == col(ShareRow.run_id))
    if not viewer.sees_all:
        is_given = col(Run.owner) == viewer.user
        is_taken = col(ShareRow.user).in_([viewer.user, EVERYBODY])
        query = query.where(is_given | is_taken)
    newest = query.order_by(col(ShareRow.created_s).desc()).limit(MOST_LISTED)
    return tuple(_view(share, run) for share, run in session.exec(newest))


def _own(session: Session, viewer: Viewer, run: str) -> Run:
    """With a lock, so that of two at once one sees what the other did. Raises `NoSuchRun`."""
    row = owned_run(session, viewer, run, for_update=True)
    if row is None:
        raise NoSuchRun(run)
    return row


def _view(share: ShareRow, run: Run) -> ShareView:
    return ShareView(
        run=RunId(run.id),
        name=run.name,
        owner=run.owner,
        user=_whom(share.user),
        created_s=share.created_s,
    )


def _of_upload(
    kind: ShareKind, share: DatasetShareRow | AdapterShareRow | BaseModelShareRow
) -> ShareView:
    return ShareView(
        kind=kind,
        name=share.name,
        owner=share.owner,
        user=_whom(share.user),
        created_s=share.created_s,
    )


def _whom(user: str) -> str | None:
    return None if user == EVERYBODY else user
