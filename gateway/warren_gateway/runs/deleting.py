"""Deleting a run: its rows at once, its files by whoever has them.

Invariants: a run goes in one transaction with the order to delete its model's files; nothing that
another run still needs, or a name is served from, is deleted, whoever's that is; what comes twice finds nothing.
"""

from sqlmodel import Session, col, delete, select

from warren_broker.topology import FILE_CLEANUP
from warren_gateway.runs.loading import told_to, who_loads
from warren_gateway.runs.newer_versions import readable_config
from warren_gateway.store.outbox import post
from warren_gateway.store.tables import (
    Checkpoint,
    EvaluationRow,
    GroupRow,
    HistoryRow,
    JobRow,
    MetricsRow,
    Model,
    OpRow,
    RequestRow,
    Run,
    RunDatasetRow,
    ServedRow,
    ShareRow,
    SnapshotRow,
)
from warren_schemas.config import RecordedSource, TrainConfig
from warren_schemas.envelope import Envelope
from warren_schemas.events import RunState
from warren_schemas.ids import ModelId, RunId
from warren_schemas.training import DeleteModel

_OF_RUNS = (
    EvaluationRow, GroupRow, HistoryRow, JobRow, MetricsRow, RunDatasetRow, ServedRow, ShareRow,
)  # fmt: skip
"""Tables of what there is of a run."""


class RunInUse(Exception):
    """The run can't be deleted now; says why and what to do."""


def delete_run(session: Session, run: Run) -> None:
    """Delete a run that is over. Raises `RunInUse`."""
    _check_unused(session, run)
    model = session.exec(select(Model).where(col(Model.run_id) == run.id)).one()
    for table in (Checkpoint, OpRow, RequestRow, SnapshotRow):
        session.exec(delete(table).where(col(table.model_id) == model.id))
    for table in _OF_RUNS:
        session.exec(delete(table).where(col(table.run_id) == run.id))
    session.delete(model)
    session.flush()
    session.delete(run)
    order = DeleteModel(envelope=Envelope(run=RunId(run.id)), model=ModelId(model.id))
    post(session, FILE_CLEANUP, order)


def _check_unused(session: Session, run: Run) -> None:
    if not RunState(run.state).is_final:
        raise RunInUse(f"{run.id} is {run.state}: cancel it first")
    if run.coordinator is not None:
        raise RunInUse(f"{run.id} is still being tidied up: try again in a moment")
    served = select(ServedRow).where(col(ServedRow.run_id) == run.id)
    if (name := session.exec(served.where(col(ServedRow.until_s).is_(None))).first()) is not None:
        raise RunInUse(
            f"{run.id} is served as {name.name} of {name.owner}: repoint that name, or"
            f" `warren serve rm {name.name}`"
        )
    final = [state.value for state in RunState if state.is_final]
    saved = (
        select(Checkpoint.url)
        .join(Model, col(Model.id) == col(Checkpoint.model_id))
        .where(col(Model.run_id) == run.id)
    )
    if (loading := who_loads(session, session.exec(saved).all(), run.owner)) is not None:
        raise RunInUse(f"{loading} has yet to load a checkpoint of {run.id}: wait for its start")
    query = select(Run).where(col(Run.state).not_in(final), col(Run.id) != run.id)
    for other in session.exec(query):
        config, name = readable_config(other), told_to(run.owner, other)
        if config is None:
            raise RunInUse(f"{name}, of a newer gateway, may need {run.id}: wait for its end")
        if _needs(config, run.id):
            raise RunInUse(f"{name} goes on from {run.id} or replays it: wait for its end")


def _needs(config: TrainConfig, run: str) -> bool:
    source, resume = config.source, config.resume_from
    is_replayed = isinstance(source, RecordedSource) and run in source.runs
    return is_replayed or (resume is not None and resume.run == run)
