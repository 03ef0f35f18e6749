"""Deleting base models, in one transaction; their files go after it, and their rows after those."""

from sqlmodel import Session, col, select

from warren_gateway.access.caller import Viewer
from warren_gateway.base_models import stored
from warren_gateway.base_models.problems import BaseModelInUse
from warren_gateway.datasets import shares
from warren_gateway.datasets.making import discard
from warren_gateway.store.tables import BaseModelRow, BaseModelShareRow, Model, Run, ServedRow
from warren_schemas.events import RunState


def delete_versions(viewer: Viewer, reference: str, session: Session) -> dict[str, str]:
    """The references of those that nobody finds any more, by id. Raises `NoSuchBaseModel`, `BaseModelInUse`."""
    rows = stored.owned(session, viewer, reference)
    bases = [stored.worker_name(row) for row in rows]
    _check_unserved(session, viewer, reference, bases)
    _check_unused(session, viewer, reference, bases)
    gone = {row.id: stored.reference_of(row) for row in rows}
    owner, name = rows[0].owner, rows[0].name
    for row in rows:
        discard(row)
    session.flush()
    shares.end_with_versions(session, BaseModelRow, BaseModelShareRow, owner, name)
    return gone


def _check_unserved(session: Session, viewer: Viewer, reference: str, bases: list[str]) -> None:
    """By its owner: names of others that point to it find nothing once it is gone."""
    served = select(ServedRow).where(
        col(ServedRow.base_model).in_(bases), col(ServedRow.until_s).is_(None)
    )
    for name in session.exec(served):
        if viewer.owns(name.owner):
            raise BaseModelInUse(
                f"{reference} is served as {name.name} of {name.owner}: repoint that name, or"
                f" `warren serve rm {name.name}`"
            )


def _check_unused(session: Session, viewer: Viewer, reference: str, bases: list[str]) -> None:
    final = [state.value for state in RunState if state.is_final]
    using = (
        select(Run)
        .join(Model, col(Model.run_id) == col(Run.id))
        .where(col(Model.base_model).in_(bases), col(Run.state).not_in(final))
    )
    if (run := session.exec(using).first()) is not None:
        who = run.id if viewer.owns(run.owner) else "a run of another user"
        raise BaseModelInUse(f"{who} uses {reference} and is not over: wait for its end")
