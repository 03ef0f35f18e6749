"""The models that clients of the protocol train, by the names that the clients have for them.

Invariants: to whoever may not read a model's run there is no model of this name; a model belongs to whoever owns the
session that its name begins with.
"""

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Literal

from sqlalchemy import ColumnElement
from sqlalchemy import select as select_columns
from sqlmodel import Session, col, func, select

from warren_gateway.access.caller import Viewer
from warren_gateway.access.shared_runs import EVERYBODY, may_read
from warren_gateway.runs.owned import read_by
from warren_gateway.store.store import Store
from warren_gateway.store.tables import Model, RequestRow, Run, ShareRow, TinkerSession
from warren_gateway.tinker.listed_weights import SavedWeightsListing, newest_kept
from warren_gateway.tinker.paths import key_of, keys_of, name_of, session_of
from warren_gateway.tinker.tracing import Span
from warren_gateway.trainable.submitting import touch
from warren_schemas.events import RunState
from warren_schemas.ids import ModelId
from warren_schemas.training import ModelSpec

Scope = Literal["owned", "accessible"]
MOST_IDS = 4096
MOST_SPANS = 100_000


class NoSuchTrained(LookupError):
    """No model of this name that the caller may read."""


@dataclass(frozen=True, slots=True)
class Trained:
    """A model, and how its client calls it."""

    name: str
    run: Run
    model: Model
    is_public: bool

    @property
    def id(self) -> ModelId:
        return ModelId(self.model.id)

    @property
    def spec(self) -> ModelSpec:
        return ModelSpec.model_validate(self.model.spec)


class TrainedModels:
    def __init__(self, store: Store) -> None:
        self._store = store
        self._ids: OrderedDict[tuple[str, str], ModelId] = OrderedDict()
        """By the user who asked and the name, those that were asked for last: neither ever changes."""

    async def find(self, viewer: Viewer, name: str) -> Trained:
        """Raises `NoSuchTrained`, `StoreUnavailable`, as the others do."""
        return await self._store.read(partial(_find, viewer, name))

    async def id_of(self, viewer: Viewer, name: str) -> ModelId:
        """Whoever uses it still has to see that it is there. Raises `NoSuchTrained`, `StoreUnavailable`."""
        key = (viewer.user, name)
        if key not in self._ids:
            self._ids[key] = (await self.find(viewer, name)).id
            if len(self._ids) > MOST_IDS:
                self._ids.popitem(last=False)
        self._ids.move_to_end(key)
        return self._ids[key]

    async def listed(
        self, viewer: Viewer, scope: Scope, limit: int, offset: int
    ) -> tuple[list[Trained], int]:
        """Newest first, and how many there are."""
        return await self._store.read(partial(_listed, viewer, scope, limit, offset))

    async def listed_kept(
        self, viewer: Viewer, scope: Scope, limit: int, offset: int
    ) -> tuple[list[SavedWeightsListing], int]:
        """What is kept of all of them, newest first, and how many there are."""
        is_seen = _is_listed(viewer, scope)
        return await self._store.read(partial(newest_kept, is_seen, limit, offset))

    async def of_session(self, viewer: Viewer, session_id: str) -> list[Trained]:
        return await self._store.read(partial(_of_session, viewer, session_id))

    async def spans(self, owner: str, session_id: str, most: int = MOST_SPANS) -> list[Span]:
        """Ops of a session's models whose outcomes are still kept, by arrival; the newest of them."""
        return await self._store.read(partial(_spans, Viewer(owner), session_id, most))

    async def heard(self, viewer: Viewer, session_id: str) -> None:
        """The client of these models is there."""
        await self._store.transact(partial(_heard, viewer, session_id))


def _find(viewer: Viewer, name: str, session: Session) -> Trained:
    its_session = session.get(TinkerSession, session_of(name) or "")
    if its_session is None:
        raise NoSuchTrained(name)
    query = (
        select(Run, Model)
        .join(Model, col(Model.run_id) == col(Run.id))
        .where(col(Run.idempotency_key) == key_of(name), col(Model.is_clients))
        .where(col(Run.owner) == its_session.owner)
    )
    found = session.exec(query).first()
    if found is None or not may_read(session, viewer, found[0]):
        raise NoSuchTrained(name)
    return _trained(session, [found])[0]


def _listed(
    viewer: Viewer, scope: Scope, limit: int, offset: int, session: Session
) -> tuple[list[Trained], int]:
    where = _is_listed(viewer, scope)
    query = select(Run, Model).join(Model, col(Model.run_id) == col(Run.id)).where(where)
    newest = query.order_by(col(Run.created_s).desc()).offset(offset).limit(limit)
    rows = _trained(session, session.exec(newest).all())
    counting = select(func.count()).select_from(Run).join(Model, col(Model.run_id) == col(Run.id))
    return rows, session.exec(counting.where(where)).one()


def _is_listed(viewer: Viewer, scope: Scope) -> ColumnElement[bool]:
    """The condition of a query that joins `Run` and `Model`: this viewer sees it in lists of this scope."""
    seen = col(Run.owner) == viewer.user if scope == "owned" else read_by(viewer)
    is_ours = col(Run.idempotency_key).startswith(keys_of())
    return seen & is_ours & col(Model.is_clients)


def _of_session(viewer: Viewer, session_id: str, session: Session) -> list[Trained]:
    is_in_it = col(Run.idempotency_key).startswith(keys_of(session_id), autoescape=True)
    query = (
        select(Run, Model)
        .join(Model, col(Model.run_id) == col(Run.id))
        .where(col(Run.owner) == viewer.user, is_in_it, col(Model.is_clients))
    )
    oldest = query.order_by(col(Run.created_s))
    return _trained(session, session.exec(oldest).all())


def _spans(viewer: Viewer, session_id: str, most: int, session: Session) -> list[Span]:
    names = {one.id: one.name for one in _of_session(viewer, session_id, session)}
    row = RequestRow
    columns = col(row.model_id), col(row.kind), col(row.id), col(row.arrived_s), col(row.done_s)
    query = select_columns(*columns).where(columns[0].in_(names))  # bodies and outcomes are large
    found = session.connection().execute(query.order_by(columns[3].desc()).limit(most)).all()
    return [
        Span(names[ModelId(model)], kind, future, arrived_s, done_s)
        for model, kind, future, arrived_s, done_s in reversed(found)
    ]


def _heard(viewer: Viewer, session_id: str, session: Session) -> None:
    for trained in _of_session(viewer, session_id, session):
        if not RunState(trained.run.state).is_final:
            touch(trained.run, session)


def _trained(session: Session, rows: Sequence[tuple[Run, Model]]) -> list[Trained]:
    shared = select(ShareRow.run_id).where(
        col(ShareRow.run_id).in_([run.id for run, _ in rows]), col(ShareRow.user) == EVERYBODY
    )
    public = set(session.exec(shared))
    return [
        Trained(name_of(run.idempotency_key), run, model, run.id in public) for run, model in rows
    ]
