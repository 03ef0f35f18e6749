"""What the store holds of a model that its client drives, besides its coordinator's own changes."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from typing import Protocol, TypeVar, cast

from sqlalchemy import bindparam
from sqlalchemy import select as select_rows
from sqlmodel import Session, col, select

from warren_gateway.coordinator.clients.order import in_turn
from warren_gateway.coordinator.clients.sampled_versions import sampled_versions
from warren_gateway.coordinator.learning import client_checkpoints
from warren_gateway.coordinator.state.client import Arrived, Asked, Taken
from warren_gateway.coordinator.state.coordinator import CoordinatorState
from warren_gateway.runs.kept_versions import KeptVersions, kept_versions
from warren_gateway.store.clock import store_time_s
from warren_gateway.store.statements import table
from warren_gateway.store.tables import Checkpoint, RequestRow, Run, SnapshotRow
from warren_schemas.codec.wire import decode
from warren_schemas.training import LoadState, Op, OpBody, PublishPolicy, SaveState

T = TypeVar("T")

MOST_BODIES = 64
"""Requests that are read at a time."""


OF_KEPT = (SaveState, LoadState, PublishPolicy)
"""Ops that become others by what is kept of the model."""

_REQUESTS = table(RequestRow)
_HEADS = (
    select_rows(_REQUESTS.c.id, _REQUESTS.c.number, _REQUESTS.c.sequence, _REQUESTS.c.arrived_s)
    .where(_REQUESTS.c.model_id == bindparam("its_model"))
    .where(_REQUESTS.c.done_s.is_(None), _REQUESTS.c.op.is_(None))
    .order_by(_REQUESTS.c.number)
)
_BODIES = select_rows(_REQUESTS.c.id, _REQUESTS.c.asked, _REQUESTS.c.body).where(
    _REQUESTS.c.id.in_(bindparam("its_ids", expanding=True))
)


class Transact(Protocol):
    def __call__(self, work: "Callable[[Session], T]", /) -> "Awaitable[T]": ...


@dataclass(frozen=True, slots=True)
class Seen:
    arrived: list[Arrived]
    now_s: float
    """On the store's clock."""
    until_s: float | None
    silence_s: float | None
    """How long the client may be silent."""
    pinned: frozenset[int]
    sampled: frozenset[int]
    """Versions that samplers without a name refer to."""
    checkpoints: frozenset[str]
    """Names."""
    served: KeptVersions


def look(session: Session, run: str, model: str, next_sequence: int) -> Seen:
    """The requests that are in no log yet, the first ones in turn with their ops, and what is kept of the model."""
    return _with_kept(session, run, model, _arrived(session, model, next_sequence))


def look_for_requests(
    session: Session, run: str, model: str, next_sequence: int
) -> Seen | list[Arrived]:
    """The requests alone, unless one of them depends on what is kept."""
    arrived = _arrived(session, model, next_sequence)
    bodies = (one.body[1] for one in arrived if one.body is not None)
    if any(isinstance(body, OF_KEPT) for body in bodies):
        return _with_kept(session, run, model, arrived)
    return arrived


def _arrived(session: Session, model: str, next_sequence: int) -> list[Arrived]:
    arrived = _heads(session, model)
    bodies = _bodies(session, in_turn(arrived, next_sequence)[:MOST_BODIES])
    return [replace(one, body=bodies.get(one.id)) for one in arrived]


def _with_kept(session: Session, run: str, model: str, arrived: list[Arrived]) -> Seen:
    snapshots = select(SnapshotRow.version).where(col(SnapshotRow.model_id) == model)
    checkpoints = select(Checkpoint.name).where(col(Checkpoint.model_id) == model)
    row = session.get_one(Run, run)
    return Seen(
        arrived,
        store_time_s(session),
        row.client_until_s,
        row.client_lease_s,
        frozenset(session.exec(snapshots)),
        sampled_versions(session, model),
        frozenset(session.exec(checkpoints)),
        kept_versions(session, run),
    )


def open_ops(session: Session, model: str) -> dict[int, Taken]:
    """Requests whose ops are in the log and not answered, by the ops' numbers."""
    is_open = (col(RequestRow.model_id) == model) & col(RequestRow.done_s).is_(None)
    rows = session.exec(select(RequestRow).where(is_open, col(RequestRow.op).is_not(None)))
    return {
        row.op: Taken(id=row.id, kind=row.kind, asked=Asked.model_validate(row.asked))
        for row in rows
        if row.op is not None
    }


async def look_again(state: CoordinatorState, transact: Transact) -> None:
    """What is there now is what is known."""
    sequence = state.client.next_sequence
    _learn(
        state,
        await transact(lambda session: look(session, state.run, state.model, sequence)),
    )


async def read_requests(state: CoordinatorState, transact: Transact) -> None:
    """What was asked for is known; the rest is looked at where it matters."""
    sequence = state.client.next_sequence
    seen = await transact(
        lambda session: look_for_requests(session, state.run, state.model, sequence)
    )
    if isinstance(seen, Seen):
        _learn(state, seen)
    else:
        state.client.arrived = seen


def _learn(state: CoordinatorState, seen: Seen) -> None:
    take_in(state, seen)
    state.observed.served = seen.served
    client_checkpoints.forget_deleted(state.learning, seen.checkpoints)


def restore(state: CoordinatorState, taken: dict[int, Taken]) -> None:
    """Another coordinator has left these in the log."""
    state.client.taken = taken
    attend(state)


def attend(state: CoordinatorState) -> None:
    """Clients can be heard from now on, and perhaps could not before: no gateway was there, or no store."""
    state.client.attended_since_s = state.now_s


def take_in(state: CoordinatorState, seen: Seen) -> None:
    """What was seen is what is."""
    client = state.client
    client.arrived, client.until_s, client.pinned = seen.arrived, seen.until_s, set(seen.pinned)
    client.sampled = set(seen.sampled)
    client.unopened = {
        version: until_s
        for version, until_s in client.unopened.items()
        if version not in seen.sampled and until_s > state.now_s
    }
    client.looked_s = state.now_s
    attended_s = state.now_s - client.attended_since_s
    is_overdue = seen.until_s is not None and seen.now_s >= seen.until_s
    client.is_gone = is_overdue and attended_s >= (seen.silence_s or 0.0)


def _heads(session: Session, model: str) -> list[Arrived]:
    heads = session.connection().execute(_HEADS, {"its_model": model})
    return [Arrived(*head) for head in heads]


def _bodies(session: Session, ready: Sequence[Arrived]) -> dict[str, tuple[Asked, OpBody]]:
    if not ready:
        return {}
    rows = session.connection().execute(_BODIES, {"its_ids": [one.id for one in ready]})
    return {id_: (Asked.model_validate(asked), _op(body)) for id_, asked, body in rows}


def _op(body: bytes | None) -> OpBody:
    assert body is not None, "a request keeps its op until that is in the log"
    return cast("Op", decode(body).items[0]).body
