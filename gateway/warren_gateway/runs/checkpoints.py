"""Checkpoints that a run has, and those that another may go on from."""

from sqlmodel import Session, col, select

from warren_gateway.access.caller import Viewer
from warren_gateway.runs.owned import readable_run, seen_by
from warren_gateway.store.tables import Checkpoint, Model, Run
from warren_schemas.config import LiveSource, TrainConfig
from warren_schemas.events import RunState
from warren_schemas.http import CheckpointList, CheckpointView, PolicyView

MOST_LOOKED_AT = 100
"""Checkpoints among which one of a like model is looked for."""


class UnusableCheckpoint(Exception):
    """`resume_from` names no checkpoint that the run could go on from; says what and why."""


def require_checkpoint(session: Session, viewer: Viewer, config: TrainConfig) -> str | None:
    """The URL of the checkpoint that the config resumes from; None where it begins anew.

    Raises `UnusableCheckpoint` unless it is one that this viewer may see, of a model of the same making, and
    of a run that is over: one that goes on would delete it before the new run has opened it.
    Whether its files are whole is seen by the trainer that opens it.
    """
    if (resume := config.resume_from) is None:
        return None
    run = readable_run(session, viewer, resume.run)
    if run is None:
        raise UnusableCheckpoint(f"there is no run {resume.run} to resume from")
    model = session.exec(select(Model).where(col(Model.run_id) == run.id)).one()
    if model.checkpoint_url is None:
        raise UnusableCheckpoint(f"{run.id} has saved no checkpoint yet")
    saved = TrainConfig.model_validate(run.config).model
    if saved != config.model:
        raise UnusableCheckpoint(
            f"{run.id} trains another model: its config says model: {saved.model_dump_json()}"
        )
    url = model.checkpoint_url
    found = session.exec(select(Checkpoint).where(col(Checkpoint.url) == url)).first()
    if resume.checkpoint is not None:
        found = session.get(Checkpoint, (model.id, resume.checkpoint))
        if found is None:
            names = ", ".join(row.name for row in _rows(session, model)) or "none"
            raise UnusableCheckpoint(
                f"{run.id} has no checkpoint {resume.checkpoint}; it has: {names}"
            )
        url = found.url
    if not RunState(run.state).is_final:
        raise UnusableCheckpoint(
            f"{run.id} is {run.state}, and deletes checkpoints as it saves newer ones: wait for its"
            " end, or cancel it"
        )
    if found is not None:
        _require_steps_left(found, run, config)
    return url


def _require_steps_left(found: Checkpoint, run: Run, config: TrainConfig) -> None:
    """A replay's checkpoint carries no step to count on from: a run that resumes from it begins at 0."""
    step, total = found.step, config.limits.steps
    is_counted_on = isinstance(TrainConfig.model_validate(run.config).source, LiveSource)
    if is_counted_on and 0 < total <= step:
        raise UnusableCheckpoint(
            f"limits.steps is the total, those before the checkpoint among them: {found.name} of"
            f" {run.id} has {step} steps behind it, and limits.steps is {total}, so nothing is left to"
            f" do; for {total} more: --set limits.steps={step + total}"
        )


def policies_of(model: Model) -> tuple[PolicyView, ...]:
    """The newest published policies, oldest first; they lie side by side in one folder."""
    folder, _, _ = (model.policy_url or "").rpartition("/")
    return tuple(
        PolicyView(step=step, version=version, url=f"{folder}/v{version}")
        for step, version in model.policies
    )


def newest_size(session: Session, viewer: Viewer, config: TrainConfig) -> int | None:
    """Bytes of the newest checkpoint that this viewer may see, of a model that is trained alike."""
    query = (
        select(Checkpoint, Run)
        .join(Model, col(Model.id) == col(Checkpoint.model_id))
        .join(Run, col(Run.id) == col(Model.run_id))
        .where(seen_by(viewer), col(Model.base_model) == config.model.base)
        .order_by(col(Checkpoint.created_s).desc())
        .limit(MOST_LOOKED_AT)
    )
    for checkpoint, run in session.exec(query):
        if run.config.get("model") == config.model.model_dump(mode="json"):
            return checkpoint.size_bytes
    return None


def list_checkpoints(session: Session, run: Run) -> CheckpointList:
    """What is kept of the run's model: its checkpoints and its policies."""
    model = session.exec(select(Model).where(col(Model.run_id) == run.id)).one()
    return CheckpointList(
        checkpoints=tuple(_view(row) for row in _rows(session, model)),
        step=run.step,
        policies=policies_of(model),
    )


def _rows(session: Session, model: Model) -> list[Checkpoint]:
    query = select(Checkpoint).where(col(Checkpoint.model_id) == model.id)
    return list(session.exec(query.order_by(col(Checkpoint.op))))


def _view(row: Checkpoint) -> CheckpointView:
    return CheckpointView(
        name=row.name,
        version=row.version,
        step=row.step,
        reward=row.reward,
        size_bytes=row.size_bytes,
        url=row.url,
        created_s=row.created_s,
    )
