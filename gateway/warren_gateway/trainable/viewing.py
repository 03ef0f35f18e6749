"""A client's model as the API shows it.

Invariant: `next_sequence` is above every number that an op of the model has or had, also of those whose outcomes
are deleted: a client that starts again never gets the future of an old op for a new one.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from sqlmodel import Session, col, func, select

from warren_gateway.coordinator.state.client import ClientState
from warren_gateway.store.tables import Model, RequestRow, Run
from warren_schemas.events import RunState
from warren_schemas.http import QueuePlace
from warren_schemas.http.trainable import TrainableView
from warren_schemas.ids import ModelId, RunId
from warren_schemas.training import ModelSpec


@dataclass(frozen=True, slots=True)
class Shown:
    run: Run
    model: Model
    next_sequence: int = 1


def shown(session: Session, rows: Sequence[tuple[Run, Model]]) -> list[Shown]:
    """With the number that the next op of each may have."""
    of_these = col(RequestRow.model_id).in_([model.id for _, model in rows])
    query = select(RequestRow.model_id, func.max(RequestRow.sequence)).where(of_these)
    highest = dict(session.exec(query.group_by(col(RequestRow.model_id))).all())
    return [
        Shown(run, model, max(_next_in_log(run), (highest.get(model.id) or 0) + 1))
        for run, model in rows
    ]


def trainable_view(seen: Shown, place: QueuePlace | None) -> TrainableView:
    run, model = seen.run, seen.model
    spec, state = ModelSpec.model_validate(model.spec), RunState(run.state)
    return TrainableView(
        id=ModelId(model.id),
        run=RunId(run.id),
        name=run.name,
        owner=run.owner,
        base_model=model.base_model,
        update=spec.update,
        seed=spec.seed,
        deterministic=spec.deterministic,
        state=state,
        waiting_for=run.waiting_for,
        queue=None if state.is_final or state is RunState.PAUSED else place,
        version=model.version,
        published_version=model.policy_version if model.policy_url else None,
        metadata=model.metadata_,
        error=run.error,
        created_s=run.created_s,
        client_until_s=run.client_until_s,
        idle_s=run.client_lease_s,
        next_sequence=seen.next_sequence,
    )


def _next_in_log(run: Run) -> int:
    """As the coordinator counts, which knows also of numbers that were given up."""
    return ClientState.model_validate((run.progress or {}).get("client") or {}).next_sequence
