"""A client's model as the API shows it."""

from warren_gateway.store.tables import Model, Run
from warren_schemas.events import RunState
from warren_schemas.http import QueuePlace
from warren_schemas.http.trainable import TrainableView
from warren_schemas.ids import ModelId, RunId
from warren_schemas.training import ModelSpec


def trainable_view(run: Run, model: Model, place: QueuePlace | None) -> TrainableView:
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
    )
