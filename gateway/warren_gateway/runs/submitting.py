"""A new run: its row, its model and its first event become true in one transaction."""

import time

from sqlmodel import Session, col, select

from warren_broker.topology import run_events
from warren_gateway.access.caller import Viewer
from warren_gateway.access.problems import NotPermitted
from warren_gateway.adapters.resolving import row_to_start_with, with_adapter
from warren_gateway.base_models.resolving import with_base
from warren_gateway.budgets.budget import OverBudget
from warren_gateway.datasets.resolving import note_read, resolved
from warren_gateway.runs.checkpoints import require_checkpoint
from warren_gateway.runs.sources import require_source
from warren_gateway.store.clock import store_time_s
from warren_gateway.store.outbox import post
from warren_gateway.store.tables import AdapterRow, HistoryRow, JobRow, Model, Run, User
from warren_gateway.usage.limits import InForce, OwnerLimits, n_queued
from warren_gateway.usage.stored_bytes import GIB, stored_bytes
from warren_schemas.config import FullUpdate, LiveSource, TrainConfig
from warren_schemas.envelope import Envelope
from warren_schemas.events import RunEvent, RunState, StateChanged
from warren_schemas.http import SubmitRun
from warren_schemas.ids import RunId, new_model_id, new_run_id
from warren_schemas.training import ModelSpec


def new_row(owner: str, body: SubmitRun, *, retry_of: str | None = None) -> Run:
    return Run(
        id=new_run_id(),
        owner=owner,
        name=body.config.name,
        idempotency_key=body.idempotency_key,
        config=body.config.model_dump(mode="json"),
        state=RunState.QUEUED,
        n_steps=body.config.limits.steps,
        created_s=time.time(),
        priority=body.priority,
        retry_of=retry_of,
        on_disconnect=body.on_disconnect,
        client_lease_s=body.client_lease_in_force_s,
        sweep=body.sweep,
    )


def insert_unless_known(
    run: Run, viewer: Viewer, config: TrainConfig, limits: OwnerLimits, session: Session
) -> Run | None:
    """Insert the run, unless its key has made one already: that one.

    Raises `UnusableSource`, `UnusableDataset`, `UnusableBaseModel`, `UnusableAdapter`, `UnusableCheckpoint`, `OverBudget`, `NotPermitted`.
    """
    if (known := with_key_of(run, session)) is not None:
        return known
    require_allowed(viewer, run.priority)
    require_source(session, viewer, config)
    exact = with_base(session, viewer, resolved(session, viewer, config))
    exact = with_adapter(session, viewer, exact)
    if exact != config:
        run.submitted, run.config = run.config, exact.model_dump(mode="json")
    insert_run(run, viewer, exact, limits, session, row_to_start_with(session, exact))
    note_read(session, run.id, exact)
    return None


def require_allowed(viewer: Viewer, priority: int) -> None:
    """Raises `NotPermitted`: whoever goes first takes turns from everybody."""
    if priority > 0 and not viewer.sees_all:
        raise NotPermitted(
            "Only an admin gives a priority above 0; a lower one lets others go first"
        )


def with_key_of(run: Run, session: Session) -> Run | None:
    """The run that this one's idempotency key has made."""
    owner, key = run.owner, run.idempotency_key
    if key is None:
        return None
    query = select(Run).where(col(Run.owner) == owner, col(Run.idempotency_key) == key)
    return session.exec(query).one_or_none()


def insert_run(
    run: Run,
    viewer: Viewer,
    config: TrainConfig,
    limits: OwnerLimits,
    session: Session,
    adapter: AdapterRow | None,
) -> None:
    """With its model, which starts with `adapter`, and its first event. Raises `UnusableCheckpoint`, `OverBudget`."""
    _require_space(session, run.owner, require_queue_place(session, run.owner, limits))
    checkpoint_url = require_checkpoint(session, viewer, config)
    if run.client_lease_s is not None:
        run.client_until_s = store_time_s(session) + run.client_lease_s
    session.add(run)
    session.flush()
    model = model_row(run, config, checkpoint_url, adapter)
    session.add(model)
    session.flush()
    session.add(job_row(run, config, model))
    reason = f"goes on for {run.retry_of}" if run.retry_of else None
    session.add(HistoryRow(run_id=run.id, state=run.state, at_s=run.created_s, reason=reason))
    queued = StateChanged(state=RunState.QUEUED, reason=reason)
    envelope = Envelope(run=RunId(run.id))
    post(session, run_events(run.id), RunEvent(envelope=envelope, at_s=run.created_s, body=queued))


def model_row(
    run: Run, config: TrainConfig, checkpoint_url: str | None, adapter: AdapterRow | None
) -> Model:
    spec = ModelSpec(
        base_model=config.model.base,
        update=config.model.update,
        seed=config.seed,
        deterministic=config.model.deterministic,
        critic=config.algorithm.critic is not None,
        start_adapter_url=None if adapter is None else adapter.url,
    )
    return Model(
        id=new_model_id(),
        run_id=run.id,
        base_model=spec.base_model,
        spec=spec.model_dump(mode="json"),
        checkpoint_url=checkpoint_url,
        adapter_id=None if adapter is None else adapter.id,
    )


def job_row(run: Run, config: TrainConfig, model: Model) -> JobRow:
    is_evaluated_live = config.evaluation is not None and not config.evaluates_recorded
    plays = isinstance(config.source, LiveSource) or is_evaluated_live
    return JobRow(
        run_id=run.id,
        model_id=model.id,
        owner=run.owner,
        base_model=model.base_model,
        is_full=isinstance(config.model.update, FullUpdate),
        n_gpus=config.model.gpus,
        plays_at_once=plays and config.sft is None,
        environments=[
            (e.name, run.owner if e.workers == "own" else "") for e in config.environments
        ],
        state="queued" if config.needs_trainer else "over",
        queued_s=run.created_s,
        wait_s=config.limits.wait_s,
    )


def require_queue_place(session: Session, owner: str, limits: OwnerLimits) -> InForce:
    """The user's row is locked, so that of two submissions at once one sees the other's run; their limits.

    Raises `OverBudget`.
    """
    most = limits.of(session.get(User, owner, with_for_update=True))
    n = n_queued(session, owner)
    if n >= most.runs_queued:
        raise OverBudget(f"You have {n} queued runs, and may have {most.runs_queued}")
    return most


def _require_space(session: Session, owner: str, most: InForce) -> None:
    stored_gib = stored_bytes(session, owner) / GIB
    if stored_gib >= most.stored_gib:
        raise OverBudget(
            f"You store {stored_gib:.3g} GiB of checkpoints, policies, data sets, adapters and base models, and may store"
            f" {most.stored_gib:g}; `warren usage --by run` and `warren data ls` show which, `warren runs delete"
            f" RUN` and `warren data rm NAME` delete one, `warren adapters rm NAME` and `warren base-models rm NAME` too"
        )
