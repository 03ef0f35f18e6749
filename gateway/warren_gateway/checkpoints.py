"""Checkpoints that a run may go on from."""

from sqlmodel import Session, col, select

from warren_gateway.store.tables import Model, Run
from warren_schemas.config import TrainConfig


class UnusableCheckpoint(Exception):
    """`resume_from` names no checkpoint that the run could go on from; says what and why."""


def require_checkpoint(session: Session, owner: str, config: TrainConfig) -> str | None:
    """The URL of the checkpoint that the config resumes from; None where it begins anew.

    Raises `UnusableCheckpoint` unless it is one of this owner's, of a model of the same making.
    Whether its files are whole is seen by the trainer that opens it.
    """
    if (resume := config.resume_from) is None:
        return None
    run = session.get(Run, resume.run)
    if run is None or run.owner != owner:
        raise UnusableCheckpoint(f"there is no run {resume.run} to resume from")
    model = session.exec(select(Model).where(col(Model.run_id) == run.id)).one()
    if model.checkpoint_url is None:
        raise UnusableCheckpoint(f"{run.id} has saved no checkpoint yet")
    saved = TrainConfig.model_validate(run.config).model
    if saved != config.model:
        raise UnusableCheckpoint(
            f"{run.id} trains another model: its config says model: {saved.model_dump_json()}"
        )
    if resume.checkpoint is None:
        return model.checkpoint_url
    states, _, _ = model.checkpoint_url.rpartition("/")
    return f"{states}/{resume.checkpoint}"
