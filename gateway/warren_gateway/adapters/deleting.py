"""Deleting adapters, in one transaction; their files go after it, and their rows after those."""

from sqlmodel import Session, col, select

from warren_gateway.access.caller import Viewer
from warren_gateway.adapters import stored
from warren_gateway.adapters.problems import AdapterInUse
from warren_gateway.datasets import shares
from warren_gateway.datasets.making import discard
from warren_gateway.store.tables import AdapterRow, AdapterShareRow, Model, Run, ServedRow
from warren_schemas.events import RunState


def delete_versions(viewer: Viewer, reference: str, session: Session) -> dict[str, str]:
    """The references of those that nobody finds any more, by id. Raises `NoSuchAdapter`, `AdapterInUse`."""
    rows = stored.owned(session, viewer, reference)
    ids = [row.id for row in rows]
    _check_unserved(session, reference, ids)
    _check_unstarted(session, viewer, reference, ids)
    gone = {row.id: stored.reference_of(row) for row in rows}
    for row in rows:
        discard(row)
    session.flush()
    shares.end_with_versions(session, AdapterRow, AdapterShareRow, rows[0].owner, rows[0].name)
    return gone


def _check_unserved(session: Session, reference: str, ids: list[str]) -> None:
    served = select(ServedRow).where(
        col(ServedRow.adapter_id).in_(ids), col(ServedRow.until_s).is_(None)
    )
    if (name := session.exec(served).first()) is not None:
        raise AdapterInUse(
            f"{reference} is served as {name.name} of {name.owner}: repoint that name, or `warren serve rm {name.name}`"
        )


def _check_unstarted(session: Session, viewer: Viewer, reference: str, ids: list[str]) -> None:
    final = [state.value for state in RunState if state.is_final]
    started = (
        select(Run)
        .join(Model, col(Model.run_id) == col(Run.id))
        .where(col(Model.adapter_id).in_(ids), col(Run.state).not_in(final))
    )
    if (run := session.exec(started).first()) is not None:
        who = run.id if viewer.owns(run.owner) else "a run of another user"
        raise AdapterInUse(f"{who} starts from {reference} and is not over: wait for its end")
