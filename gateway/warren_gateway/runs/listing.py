"""Lists of runs, newest first."""

from typing import cast

from sqlalchemy.orm import QueryableAttribute, defer
from sqlmodel import Session, col, select

from warren_gateway.access.caller import Viewer
from warren_gateway.access.shared_runs import shared_with
from warren_gateway.runs.owned import seen_by
from warren_gateway.store.tables import Run
from warren_schemas.events import RunState

UNSEEN = tuple(
    defer(cast("QueryableAttribute[object]", column), raiseload=True)
    for column in (Run.submitted, Run.progress)
)


def newest_runs(
    viewer: Viewer,
    state: RunState | None,
    limit: int,
    shared: bool,
    sweep: str | None,
    session: Session,
) -> list[Run]:
    """Of this viewer, or shared with them; in this state, of this sweep. What no list shows of them is not loaded."""
    query = select(Run).where(shared_with(viewer.user) if shared else seen_by(viewer))
    if state is not None:
        query = query.where(col(Run.state) == state)
    if sweep is not None:
        query = query.where(col(Run.sweep) == sweep)
    query = query.options(*UNSEEN).order_by(col(Run.id).desc()).limit(limit)
    return list(session.exec(query))
