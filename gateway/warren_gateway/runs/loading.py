"""Checkpoints that a model of another run has yet to load: they stay until then."""

from collections.abc import Collection

from sqlmodel import Session, col, select

from warren_gateway.store.tables import Model, RequestRow, Run
from warren_schemas.events import RunState


def runs_by_source(session: Session) -> dict[str, Run]:
    """Runs whose models begin with a checkpoint of another one or go on from it, by the checkpoint's URL."""
    final = [state.value for state in RunState if state.is_final]
    query = (
        select(RequestRow, Run)
        .join(Model, col(Model.id) == col(RequestRow.model_id))
        .join(Run, col(Run.id) == col(Model.run_id))
        .where(col(RequestRow.done_s).is_(None), col(RequestRow.kind) == "load_state")
        .where(col(Run.state).not_in(final))
    )
    found = ((row.asked.get("source"), run) for row, run in session.exec(query))
    return {source: run for source, run in found if source is not None}


def who_loads(session: Session, urls: Collection[str], owner: str) -> str | None:
    """The run that has yet to load one of these, as its owner or somebody else is told of it."""
    runs = runs_by_source(session)
    run = next((runs[url] for url in urls if url in runs), None)
    return None if run is None else told_to(owner, run)


def told_to(owner: str, run: Run) -> str:
    return run.id if run.owner == owner else "a run of another user"
