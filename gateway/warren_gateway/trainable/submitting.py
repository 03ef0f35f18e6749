"""An op that is asked for becomes a request, in one transaction.

Invariants: a key and a sequence number stand for one request of a model: the same one again gives the same future,
whatever else it came with, and another one is refused, but where the number alone decides (`Wanted.is_by_number`).
A model that is closed or closing takes none.
"""

import hashlib
import time
from dataclasses import dataclass

from sqlalchemy import bindparam, func, insert, update
from sqlalchemy import select as select_rows
from sqlmodel import Session

from warren_broker.topology import RUN_CHANGES
from warren_gateway.access.caller import Viewer
from warren_gateway.budgets.budget import OverBudget
from warren_gateway.coordinator.state.client import Arrived, Asked
from warren_gateway.stop_request import StopRequest
from warren_gateway.store.clock import store_time_s
from warren_gateway.store.outbox import post
from warren_gateway.store.statements import table
from warren_gateway.store.tables import RequestRow, Run
from warren_gateway.trainable.asking import Wanted
from warren_gateway.trainable.awaited import is_awaited
from warren_gateway.trainable.outcomes import Request
from warren_gateway.trainable.owned import Locked, locked
from warren_gateway.trainable.problems import InvalidOp, ModelClosed, RequestConflict
from warren_gateway.trainable.saved import resolve
from warren_gateway.trainable.space import within_space
from warren_gateway.trainable.waiting_bytes import with_room
from warren_gateway.usage.limits import DEFAULT_LIMITS, OwnerLimits
from warren_schemas.codec.frame import WireError
from warren_schemas.codec.wire import encode
from warren_schemas.control import RunChanged
from warren_schemas.envelope import Envelope
from warren_schemas.events import RunState
from warren_schemas.ids import MessageId, ModelId, RunId, new_id
from warren_schemas.training import LoadState, Op, OpBody

MOST_OPEN = 1024
"""Requests of a model that have no outcome."""
FUTURE = "future"

_REQUESTS = table(RequestRow)
_ADD = insert(_REQUESTS).returning(_REQUESTS.c.number)
_SAME = _REQUESTS.alias()
_KNOWN = (
    select_rows(_SAME.c.number)
    .where(_SAME.c.model_id == bindparam("its_model"))
    .where((_SAME.c.key == bindparam("its_key")) | (_SAME.c.sequence == bindparam("its_sequence")))
    .order_by(_SAME.c.number)
    .limit(1)
)
"""None is equal to nothing."""
_STANDING = select_rows(
    _KNOWN.scalar_subquery(),
    func.count(),
    func.coalesce(func.sum(func.length(_REQUESTS.c.body)), 0),
).where(_REQUESTS.c.model_id == bindparam("its_model"), _REQUESTS.c.done_s.is_(None))
"""The request that is the same one, and of those that are open how many there are and how many bytes."""
_HEARD = update(table(Run)).where(table(Run).c.id == bindparam("its_run"))


@dataclass(frozen=True, slots=True)
class Accepted:
    """A request, which may have been there before."""

    request: Request
    owner: str
    arrived: Arrived | None = None
    """As its coordinator finds it in the store, where it is new."""

    @property
    def is_new(self) -> bool:
        return self.arrived is not None


def encoded(body: OpBody) -> bytes:
    """The op as a wire message; the same one gives the same bytes. Raises `InvalidOp`."""
    envelope = Envelope(id=MessageId("request"))
    try:
        return encode([Op(envelope=envelope, model=ModelId("-"), epoch=1, number=1, body=body)])
    except WireError as error:
        raise InvalidOp([f"{error}; ask for several smaller ops"]) from error


def insert_request(
    session: Session,
    viewer: Viewer,
    model: str,
    wanted: Wanted,
    key: str | None = None,
    sequence: int | None = None,
    limits: OwnerLimits = DEFAULT_LIMITS,
) -> Accepted:
    """Raises `NoSuchTrainable`, `NoSuchSavedWeights`, `ModelClosed`, `RequestConflict`, `InvalidOp`, `OverBudget`."""
    row = locked(session, viewer, model)
    _note_heard(session, row)
    body, asked = wanted.body, wanted.asked
    if wanted.checkpoint is not None and isinstance(body, LoadState):
        _, checkpoint = resolve(session, viewer, wanted.checkpoint)
        body = body.model_copy(update={"url": checkpoint.url})
        asked = asked.model_copy(update={"source": checkpoint.url})
    message = encoded(body)
    digest = hashlib.sha256(message + wanted.asked.model_dump_json().encode()).hexdigest()
    same = {"its_model": row.id, "its_key": key, "its_sequence": sequence}
    known, n_open, n_waiting = session.connection().execute(_STANDING, same).one()
    if known is not None:
        before = session.get_one(RequestRow, known)
        is_same = wanted.is_by_number and before.sequence == sequence
        return _accepted_before(before, before.digest if is_same else digest, row, key, asked)
    _require_open(row)
    _require_place(session, row, sequence, n_open)
    allowed = with_room(session, row, body, sequence, n_waiting, len(message))
    allowed = within_space(session, row, allowed, asked, sequence, limits)
    future = new_id(FUTURE)
    request = {
        "id": future,
        "model_id": row.id,
        "key": key,
        "sequence": sequence,
        "digest": digest,
        "kind": allowed.kind,
        "asked": asked.model_dump(),
        "body": message if allowed is body else encoded(allowed),
        "arrived_s": (arrived_s := time.time()),
    }
    number = session.connection().execute(_ADD, request).scalar_one()
    _tell(session, row)
    arrived = Arrived(future, number, sequence, arrived_s, (asked, allowed))
    return Accepted(_request(future, row, allowed.kind, asked), row.owner, arrived)


def _accepted_before(
    known: RequestRow, digest: str, model: Locked, key: str | None, asked: Asked
) -> Accepted:
    """Raises `RequestConflict`."""
    if known.digest != digest:
        is_key = known.key == key and key
        what = f"key {key}" if is_key else f"sequence number {known.sequence}"
        raise RequestConflict(what, known.id)
    return Accepted(_request(known.id, model, known.kind, asked), model.owner)


def _request(future: str, model: Locked, kind: str, asked: Asked) -> Request:
    return Request(future, ModelId(model.id), RunId(model.run), kind, asked)


def touch(run: Run, session: Session) -> None:
    """Its client was heard of; written where that says something new."""
    until_s = _heard_until_s(session, run.client_lease_s, run.client_until_s)
    if until_s is not None:
        run.client_until_s = until_s
        session.add(run)


def _note_heard(session: Session, model: Locked) -> None:
    until_s = _heard_until_s(session, model.client_lease_s, model.client_until_s)
    if until_s is not None:
        heard = {"its_run": model.run, "client_until_s": until_s}
        session.connection().execute(_HEARD, heard)


def _heard_until_s(
    session: Session, lease_s: float | None, known_until_s: float | None
) -> float | None:
    """None where that says nothing new."""
    if lease_s is None:
        return None
    until_s = store_time_s(session) + lease_s
    is_new = known_until_s is None or until_s - known_until_s > lease_s / 8
    return until_s if is_new else None


def _tell(session: Session, model: Locked) -> None:
    """The gateway that drives the model looks for requests; where there is only one, it is told directly."""
    if session.get_bind().dialect.name != "sqlite":
        run = RunId(model.run)
        changed = RunChanged(envelope=Envelope(run=run), changed_run=run)
        post(session, RUN_CHANGES, changed)


def _require_open(model: Locked) -> None:
    state = RunState(model.state)
    if state.is_final:
        reason = model.error or (model.result or {}).get("remark")
        raise ModelClosed(f"the model is {state}{f': {reason}' if reason else ''}")
    if (
        state is RunState.FINISHING
        or model.is_cancel_requested
        or model.stop_request
        in (
            StopRequest.FINISH,
            StopRequest.SAVE_AND_CANCEL,
        )
    ):
        raise ModelClosed("the model is being closed")


def _require_place(session: Session, model: Locked, sequence: int | None, n_open: int) -> None:
    if n_open >= MOST_OPEN and not is_awaited(session, model, sequence):
        raise OverBudget(f"{n_open} ops of the model have no outcome yet, and {MOST_OPEN} may")
