"""The part of a change that concerns a client's requests.

Invariant: an outcome is written once; one that comes again, of an op that was applied again, changes nothing.
"""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import bindparam, delete, insert, update
from sqlmodel import Session, col

from warren_broker.topology import MODEL_ANSWERS
from warren_gateway.store.outbox import post
from warren_gateway.store.statements import table
from warren_gateway.store.tables import RequestRow, SnapshotRow
from warren_schemas.codec.wire import encode
from warren_schemas.control import RequestsAnswered
from warren_schemas.envelope import Envelope
from warren_schemas.ids import ModelId
from warren_schemas.training import OpFailed, OpResult

Answered = Callable[[ModelId, Mapping[str, OpResult] | None], None]
"""Told of a model, and of the outcomes of its requests that are committed; None: all of them have one."""

_REQUESTS = table(RequestRow)
_CHANGE_OPEN = update(_REQUESTS).where(
    _REQUESTS.c.id == bindparam("its_id"), _REQUESTS.c.done_s.is_(None)
)


@dataclass(slots=True)
class ClientChange:
    taken: dict[str, int] = field(default_factory=dict[str, int])
    """Requests that are in the op log now, by id: their numbers in it."""
    outcomes: dict[str, OpResult] = field(default_factory=dict[str, OpResult])
    """By the request's id."""
    snapshots: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    """Rows of policies that were named."""
    ended: str | None = None
    """Why nothing more is answered: all that is open fails."""

    @property
    def is_empty(self) -> bool:
        return not (self.taken or self.outcomes or self.snapshots or self.ended)

    @property
    def answered(self) -> Mapping[str, OpResult] | None:
        """What waiters are told; None: all of the model's have something to look at."""
        return None if self.ended else self.outcomes

    def apply(self, session: Session, model_id: str) -> None:
        if self.taken:
            taken = [
                {"its_id": request, "op": op, "body": None} for request, op in self.taken.items()
            ]
            session.connection().execute(_CHANGE_OPEN, taken)
        self._apply_outcomes(session, model_id)
        self._apply_snapshots(session, model_id)

    def _apply_outcomes(self, session: Session, model_id: str) -> None:
        now_s = time.time()
        if self.outcomes:
            done = {"done_s": now_s, "body": None}
            outcomes = [
                {"its_id": request, "outcome": encode([result]), **done}
                for request, result in self.outcomes.items()
            ]
            session.connection().execute(_CHANGE_OPEN, outcomes)
        if self.ended is not None:
            left = update(RequestRow).where(
                col(RequestRow.model_id) == model_id, col(RequestRow.done_s).is_(None)
            )
            outcome = encode([failure(ModelId(model_id), self.ended, is_users=True)])
            session.exec(left.values(outcome=outcome, done_s=now_s, body=None))
        is_shared = session.get_bind().dialect.name != "sqlite"
        if is_shared and (self.outcomes or self.ended):
            told = RequestsAnswered(
                envelope=Envelope(),
                answered_model=ModelId(model_id),
                requests=tuple(sorted(self.outcomes)) if self.ended is None else None,
            )
            post(session, MODEL_ANSWERS, told)

    def _apply_snapshots(self, session: Session, model_id: str) -> None:
        """One of the same name takes the place of the older one."""
        if not self.snapshots:
            return
        names = [row["name"] for row in self.snapshots]
        older = (col(SnapshotRow.model_id) == model_id) & col(SnapshotRow.name).in_(names)
        session.exec(delete(SnapshotRow).where(older))
        session.exec(insert(SnapshotRow), params=self.snapshots)


def failure(model: ModelId, reason: str, *, is_users: bool) -> OpResult:
    """The outcome of a request that no trainer has seen."""
    outcome = OpFailed(reason=reason.replace("\0", ""), is_users=is_users)
    return OpResult(envelope=Envelope(), model=model, epoch=1, number=0, outcome=outcome)
