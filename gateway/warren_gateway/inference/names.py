"""Names under which models are served: stable, while what they point to changes.

Invariants
- To repoint a name is one transaction, and every request asks the store: it is answered by what the name
  pointed to when it came, and none finds a name without anything behind it.
- What a name points to is kept. Its run or its adapter can't be deleted; the coordinator of a run that goes on has the trainer keep
  the version, also for `KEPT_S` after the name points elsewhere, for requests may be under way with it. `limits_number`
  rises with what is to be kept, so that no step is committed that was decided without it (`run_leases.fence`).
- A name is used by its owner, by admins, and by whoever may read the run or the adapter that it points to.
- Nobody serves what is only shared with them: what is served can't be deleted by its owner.
"""

import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from sqlalchemy.exc import IntegrityError
from sqlmodel import Session, col, delete, func, or_, select

from warren_gateway.access.caller import Viewer
from warren_gateway.adapters.stored import (
    VERSION,
    find,
    is_readable,
    readable_by,
    reference_of,
)
from warren_gateway.base_models.stored import exact_name
from warren_gateway.inference.pinning import NEWEST, CannotServe, Pinned, after_step, of_checkpoint
from warren_gateway.runs.kept_versions import KEPT_S
from warren_gateway.runs.owned import NoSuchRun, owned_run, read_by, readable_run
from warren_gateway.runs.steering import post_run_changed
from warren_gateway.store.store import Store
from warren_gateway.store.tables import AdapterRow, Model, Run, ServedRow
from warren_schemas.events import RunState
from warren_schemas.http import RemoveServed, ServedView, ServeModel
from warren_schemas.ids import RunId

MOST_NAMES = 100
"""Of one owner."""
_N_LISTED = 1000
_NAME = re.compile(r"[A-Za-z0-9._-]{1,64}")


class NoSuchName(LookupError):
    """Nothing is served under this name, as far as the caller may see."""


@dataclass(frozen=True, slots=True)
class _Target:
    base_model: str
    run: Run | None = None
    pinned: Pinned = NEWEST
    adapter: str | None = None
    """Id of one that was uploaded."""


class ServedNames:
    def __init__(
        self, store: Store, offered: Callable[[], list[str]], posted: Callable[[], None]
    ) -> None:
        """`offered`: base models of live samplers; `posted` is called when a message is in the outbox."""
        self._store = store
        self._offered = offered
        self._posted = posted

    async def point(self, viewer: Viewer, wanted: ServeModel) -> ServedView:
        """Make a name, or repoint it; to where it points already changes nothing.

        Raises `CannotServe`, `NoSuchRun`, `NoSuchAdapter`, `NoSuchBaseModel`, `StoreUnavailable`.
        """
        if wanted.name in self._offered():
            raise CannotServe(f"A base model is named {wanted.name}", "Choose another name.")
        work = partial(_pointed, viewer, wanted)
        try:
            view = await self._store.transact(work)
        except IntegrityError:  # somebody else made the name, a moment earlier
            view = await self._store.transact(work)
        self._posted()
        return view

    async def remove(self, viewer: Viewer, wanted: RemoveServed) -> ServedView:
        """What it pointed to; nobody finds it any more. Raises `NoSuchName`, `StoreUnavailable`."""
        view = await self._store.transact(partial(_remove, viewer, wanted))
        self._posted()
        return view

    async def listed(self, viewer: Viewer) -> tuple[ServedView, ...]:
        """Those that this viewer may use, their own first. Raises `StoreUnavailable`."""
        return await self._store.read(
            lambda session: tuple(_view(session, row) for row in names_of(viewer, session))
        )


def find_name(session: Session, viewer: Viewer, name: str) -> ServedRow | None:
    """What `NAME` of this viewer, or `OWNER/NAME` of somebody else, points to."""
    owner, slash, own = name.rpartition("/")
    if not _NAME.fullmatch(own) or (slash and not _NAME.fullmatch(owner)):
        return None
    row = _in_force(session, owner or viewer.user, own)
    if row is None or viewer.owns(row.owner):
        return row
    return row if _may_use(session, viewer, row) else None


def _may_use(session: Session, viewer: Viewer, row: ServedRow) -> bool:
    """Whether a name of somebody else's points to what this viewer may read."""
    if row.adapter_id is not None:
        return is_readable(session, viewer, row.adapter_id)
    return row.run_id is not None and readable_run(session, viewer, row.run_id) is not None


def names_of(viewer: Viewer, session: Session) -> list[ServedRow]:
    """Those that this viewer may use, their own first."""
    query = (
        select(ServedRow)
        .join(Run, col(Run.id) == col(ServedRow.run_id), isouter=True)
        .where(col(ServedRow.until_s).is_(None))
        .order_by(col(ServedRow.owner) != viewer.user, col(ServedRow.owner), col(ServedRow.name))
    )
    if not viewer.sees_all:
        of_run = col(ServedRow.run_id).is_not(None) & read_by(viewer)
        of_adapter = col(ServedRow.adapter_id).in_(select(AdapterRow.id).where(readable_by(viewer)))
        query = query.where(or_(col(ServedRow.owner) == viewer.user, of_run, of_adapter))
    return list(session.exec(query.limit(_N_LISTED)))


def _in_force(session: Session, owner: str, name: str) -> ServedRow | None:
    query = select(ServedRow).where(
        col(ServedRow.owner) == owner,
        col(ServedRow.name) == name,
        col(ServedRow.until_s).is_(None),
    )
    return session.exec(query).one_or_none()


def _pointed(viewer: Viewer, wanted: ServeModel, session: Session) -> ServedView:
    return _view(session, point_name(viewer, wanted, session))


def point_name(viewer: Viewer, wanted: ServeModel, session: Session) -> ServedRow:
    """Raises `CannotServe`, `NoSuchRun`, `NoSuchAdapter`, `NoSuchBaseModel`."""
    target = _target(session, viewer, wanted)
    before = _in_force(session, viewer.user, wanted.name)
    if before is not None and _points_there(before, target):
        return before
    if before is None:
        _require_room(session, viewer.user)
    else:
        _retire(session, before)
    return _insert(session, viewer.user, wanted.name, target)


def _target(session: Session, viewer: Viewer, wanted: ServeModel) -> _Target:
    """With a lock on the run's row, so that nobody decides a step meanwhile, or on that of what was uploaded."""
    if wanted.adapter is not None:
        found = find(session, viewer, wanted.adapter, for_use=True)
        _require_own(viewer, found)
        pinned = Pinned(version=VERSION, url=found.url)
        return _Target(found.base_model, pinned=pinned, adapter=found.id)
    if wanted.run is None:
        return _Target(exact_name(session, viewer, wanted.base_model or "", for_use=True))
    run = owned_run(session, viewer, wanted.run, for_update=True)
    if run is None:
        raise NoSuchRun(wanted.run)
    model = session.exec(select(Model).where(col(Model.run_id) == run.id)).one()
    if wanted.checkpoint is not None:
        return _Target(model.base_model, run, of_checkpoint(session, run, model, wanted.checkpoint))
    if wanted.step is not None:
        return _Target(model.base_model, run, after_step(session, run, model, wanted.step))
    return _Target(model.base_model, run)


def _require_own(viewer: Viewer, adapter: AdapterRow) -> None:
    if not viewer.owns(adapter.owner):
        raise CannotServe(
            f"{reference_of(adapter)} is shared with you, and served by its owner alone",
            f"Ask for it as {adapter.owner}/{adapter.name}.",
        )


def _points_there(row: ServedRow, target: _Target) -> bool:
    run = None if target.run is None else target.run.id
    pinned = target.pinned
    return (row.base_model, row.run_id, row.step, row.version, row.adapter_id) == (
        target.base_model, run, pinned.step, pinned.version, target.adapter
    )  # fmt: skip


def _require_room(session: Session, owner: str) -> None:
    in_force = select(func.count()).select_from(ServedRow)
    query = in_force.where(col(ServedRow.owner) == owner, col(ServedRow.until_s).is_(None))
    if session.exec(query).one() >= MOST_NAMES:
        raise CannotServe(
            f"{owner} serves {MOST_NAMES} names, which is the most",
            "`warren serve rm NAME` removes one.",
        )


def _retire(session: Session, row: ServedRow) -> None:
    """It is not in force any more; what nobody can need is forgotten."""
    row.until_s = time.time()
    session.add(row)
    older = (col(ServedRow.owner) == row.owner, col(ServedRow.name) == row.name)
    session.exec(delete(ServedRow).where(*older, col(ServedRow.until_s) < row.until_s - KEPT_S))
    session.flush()
    if row.run_id is not None:
        post_run_changed(session, session.get_one(Run, row.run_id))


def _insert(session: Session, owner: str, name: str, target: _Target) -> ServedRow:
    run, pinned = target.run, target.pinned
    row = ServedRow(
        owner=owner,
        name=name,
        base_model=target.base_model,
        run_id=None if run is None else run.id,
        step=pinned.step,
        version=pinned.version,
        url=pinned.url,
        adapter_id=target.adapter,
        since_s=time.time(),
    )
    session.add(row)
    session.flush()
    if run is not None and pinned.url is not None and not RunState(run.state).is_final:
        run.limits_number += 1
        session.add(post_run_changed(session, run))
    return row


def _remove(viewer: Viewer, wanted: RemoveServed, session: Session) -> ServedView:
    owner = wanted.owner or viewer.user
    row = _in_force(session, owner, wanted.name) if viewer.owns(owner) else None
    if row is None:
        raise NoSuchName(wanted.name)
    view = _view(session, row)
    _retire(session, row)
    return view


def _view(session: Session, row: ServedRow) -> ServedView:
    adapter = None if row.adapter_id is None else session.get_one(AdapterRow, row.adapter_id)
    return ServedView(
        name=row.name,
        owner=row.owner,
        base_model=row.base_model,
        run=None if row.run_id is None else RunId(row.run_id),
        step=row.step,
        version=row.version,
        adapter=None if adapter is None else reference_of(adapter),
        since_s=row.since_s,
    )
