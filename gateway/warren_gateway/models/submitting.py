"""An op that is asked for becomes a request, in one transaction.

Invariants: a key and a sequence number stand for one request of a model: the same one again gives the same future,
whatever else it came with, and another one is refused. A model that is closed or closing takes none.
"""

import hashlib
import time
from dataclasses import dataclass

from sqlalchemy import Row, bindparam, func, insert
from sqlalchemy import select as select_rows
from sqlmodel import Session

from warren_broker.topology import RUN_CHANGES
from warren_gateway.access.caller import Viewer
from warren_gateway.budgets.budget import OverBudget
from warren_gateway.coordinator.state.client import Asked
from warren_gateway.models.asking import Wanted
from warren_gateway.models.kept import resolve
from warren_gateway.models.outcomes import Request
from warren_gateway.models.owned import owned
from warren_gateway.models.problems import InvalidOp, ModelClosed, RequestConflict
from warren_gateway.models.space import within_space
from warren_gateway.stop_request import StopRequest
from warren_gateway.store.clock import store_time_s
from warren_gateway.store.outbox import post
from warren_gateway.store.statements import table
from warren_gateway.store.tables import Model, RequestRow, Run
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
MOST_WAITING_BYTES = 128 * 1024 * 1024
"""Of requests of a model that are in no log yet; 16 times what the largest one has."""
FUTURE = "future"

_REQUESTS = table(RequestRow)
_ADD = insert(_REQUESTS)
_KNOWN = (
    select_rows(_REQUESTS.c.id, _REQUESTS.c.digest, _REQUESTS.c.kind, _REQUESTS.c.key)
    .where(_REQUESTS.c.model_id == bindparam("its_model"))
    .where(
        (_REQUESTS.c.key == bindparam("its_key"))
        | (_REQUESTS.c.sequence == bindparam("its_sequence"))
    )
    .order_by(_REQUESTS.c.number)
    .limit(1)
)
"""None is equal to nothing."""
_OPEN = select_rows(func.count(), func.coalesce(func.sum(func.length(_REQUESTS.c.body)), 0)).where(
    _REQUESTS.c.model_id == bindparam("its_model"), _REQUESTS.c.done_s.is_(None)
)


@dataclass(frozen=True, slots=True)
class Accepted:
    """A request, which may have been there before."""

    request: Request
    run: Run
    is_new: bool


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
    """Raises `NoSuchTrainable`, `NoSuchKept`, `ModelClosed`, `RequestConflict`, `InvalidOp`, `OverBudget`."""
    run, row = owned(session, viewer, model, for_update=True)
    touch(run, session)
    body, asked = wanted.body, wanted.asked
    if wanted.checkpoint is not None and isinstance(body, LoadState):
        _, checkpoint = resolve(session, viewer, wanted.checkpoint)
        body = body.model_copy(update={"url": checkpoint.url})
        asked = asked.model_copy(update={"source": checkpoint.url})
    message = encoded(body)
    digest = hashlib.sha256(message + wanted.asked.model_dump_json().encode()).hexdigest()
    if (known := _known(session, row, key, sequence)) is not None:
        if known.digest != digest:
            what = f"key {key}" if known.key == key and key else f"sequence number {sequence}"
            raise RequestConflict(what, known.id)
        return Accepted(_request(known.id, run, row, known.kind, asked), run, is_new=False)
    _require_open(run)
    _require_place(session, row, len(message))
    allowed = within_space(session, run.owner, row, body, asked, limits)
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
        "arrived_s": time.time(),
    }
    session.connection().execute(_ADD, request)
    tell(session, run)
    return Accepted(_request(future, run, row, allowed.kind, asked), run, is_new=True)


def _request(future: str, run: Run, model: Model, kind: str, asked: Asked) -> Request:
    return Request(future, ModelId(model.id), RunId(run.id), kind, asked)


def touch(run: Run, session: Session) -> None:
    """Its client was heard of; written where that says something new."""
    lease_s = run.client_lease_s
    if lease_s is None:
        return
    until_s = store_time_s(session) + lease_s
    if run.client_until_s is None or until_s - run.client_until_s > lease_s / 8:
        run.client_until_s = until_s
        session.add(run)


def tell(session: Session, run: Run) -> None:
    """The gateway that drives the model looks for requests; where there is only one, it is told directly."""
    if session.get_bind().dialect.name != "sqlite":
        changed = RunChanged(envelope=Envelope(run=RunId(run.id)), changed_run=RunId(run.id))
        post(session, RUN_CHANGES, changed)


def _known(
    session: Session, model: Model, key: str | None, sequence: int | None
) -> "Row[str, str, str, str | None] | None":
    named = {"its_model": model.id, "its_key": key, "its_sequence": sequence}
    return session.connection().execute(_KNOWN, named).first()


def _require_open(run: Run) -> None:
    state = RunState(run.state)
    if state.is_final:
        reason = run.error or (run.result or {}).get("remark")
        raise ModelClosed(f"the model is {state}{f': {reason}' if reason else ''}")
    if (
        state is RunState.FINISHING
        or run.is_cancel_requested
        or run.stop_request
        in (
            StopRequest.FINISH,
            StopRequest.SAVE_AND_CANCEL,
        )
    ):
        raise ModelClosed("the model is being closed")


def _require_place(session: Session, model: Model, n_bytes: int) -> None:
    n_open, n_waiting = session.connection().execute(_OPEN, {"its_model": model.id}).one()
    if n_open >= MOST_OPEN:
        raise OverBudget(f"{n_open} ops of the model have no outcome yet, and {MOST_OPEN} may")
    if n_waiting + n_bytes > MOST_WAITING_BYTES:
        raise OverBudget(
            f"{n_waiting >> 20} MiB of ops of the model wait for the trainer, and"
            f" {MOST_WAITING_BYTES >> 20} MiB may"
        )
