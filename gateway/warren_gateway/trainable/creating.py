"""A new model: its run, its place in the queue for trainers and what it begins with become true at once.

Invariant: the same key of the same owner gives the same model, also when it comes twice at once.
"""

import time
from dataclasses import dataclass

from sqlmodel import Session, col, select

from warren_gateway.access.caller import Viewer
from warren_gateway.adapters.resolving import row_to_start_with, with_adapter
from warren_gateway.base_models.resolving import usable_base, with_base
from warren_gateway.coordinator.state.client import Asked
from warren_gateway.runs.client_leases import CLOSE
from warren_gateway.runs.submitting import insert_run, require_allowed, with_key_of
from warren_gateway.store.tables import Model, Run
from warren_gateway.trainable.asking import Wanted
from warren_gateway.trainable.problems import InvalidOp
from warren_gateway.trainable.saved import resolve
from warren_gateway.trainable.submitting import insert_request, touch
from warren_gateway.usage.limits import OwnerLimits
from warren_schemas.config import ClientSource, EnvironmentConfig, ModelConfig, TrainConfig
from warren_schemas.events import RunState
from warren_schemas.http.trainable import CreateModel
from warren_schemas.ids import new_run_id
from warren_schemas.training import LoadState, ModelSpec

NO_ENVIRONMENT = "client"
"""Stands where runs name their environments; nobody hosts it."""


@dataclass(frozen=True, slots=True)
class Created:
    run: Run
    model: Model
    is_new: bool
    is_alike: bool = True
    """What its key has made before is what is asked for now."""


def insert_model(
    session: Session, viewer: Viewer, body: CreateModel, limits: OwnerLimits
) -> Created:
    """Raises `NoSuchSavedWeights`, `InvalidOp`, `UnusableBaseModel`, `UnusableAdapter`, `OverBudget`."""
    config = _config(session, viewer, body)
    run = _run(viewer.user, body, config)
    if (known := with_key_of(run, session)) is not None:
        model = _model_of(session, known)
        asked_before = TrainConfig.model_validate(known.submitted or known.config)
        is_alike = asked_before == config and model.metadata_ == body.metadata
        touch(known, session)
        return Created(known, model, is_new=False, is_alike=is_alike)
    require_allowed(viewer, run.priority)
    exact, adapter = with_base(session, viewer, config), None
    if body.begin_from is None:  # else its weights are the checkpoint's
        exact = with_adapter(session, viewer, exact)
        adapter = row_to_start_with(session, exact)
    if exact != config:
        run.submitted, run.config = run.config, exact.model_dump(mode="json")
    insert_run(run, viewer, exact, limits, session, adapter)
    model = _model_of(session, run)
    model.is_clients, model.metadata_ = True, body.metadata
    session.add(model)
    session.flush()
    if body.begin_from is not None:
        _, checkpoint = resolve(session, viewer, body.begin_from.checkpoint)
        load = LoadState(url=checkpoint.url, optimizer=body.begin_from.optimizer)
        asked = Asked(is_beginning=True, source=checkpoint.url)
        insert_request(session, viewer, model.id, Wanted(load, asked))
    return Created(run, model, is_new=True)


def with_key(session: Session, viewer: Viewer, key: str) -> tuple[Run, Model] | None:
    """The caller's model that was made with this key."""
    query = select(Run, Model).join(Model, col(Model.run_id) == col(Run.id))
    mine = (col(Run.owner) == viewer.user) & (col(Run.idempotency_key) == key)
    return session.exec(query.where(mine, col(Model.is_clients))).one_or_none()


def _config(session: Session, viewer: Viewer, body: CreateModel) -> TrainConfig:
    """With what the checkpoint was made of, where nothing else is asked for."""
    update = body.update
    if body.begin_from is not None:
        model, _ = resolve(session, viewer, body.begin_from.checkpoint)
        spec = ModelSpec.model_validate(model.spec)
        if "update" not in body.model_fields_set:
            update = spec.update
        base = usable_base(session, viewer, body.base_model)
        if (spec.base_model, spec.update) != (base, update):
            made_of = f"{spec.base_model} with {spec.update.model_dump_json()}"
            raise InvalidOp([f"begin_from.checkpoint: it is of another model, {made_of}"])
    return TrainConfig(
        name=body.name,
        model=ModelConfig(base=body.base_model, update=update, deterministic=body.deterministic),
        environments=(EnvironmentConfig(name=NO_ENVIRONMENT),),
        source=ClientSource(),
        seed=body.seed,
    )


def _run(owner: str, body: CreateModel, config: TrainConfig) -> Run:
    now_s = time.time()
    return Run(
        id=new_run_id(),
        owner=owner,
        name=body.name,
        idempotency_key=body.key,
        config=config.model_dump(mode="json"),
        state=RunState.QUEUED,
        n_steps=0,
        created_s=now_s,
        on_disconnect=CLOSE,
        client_lease_s=body.idle_s,
    )


def _model_of(session: Session, run: Run) -> Model:
    return session.exec(select(Model).where(col(Model.run_id) == run.id)).one()
