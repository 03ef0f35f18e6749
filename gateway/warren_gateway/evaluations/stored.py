"""The evaluations of runs, as the store has them."""

import asyncio
from collections.abc import Sequence
from typing import cast

from sqlmodel import Session, col, select

from warren_gateway.access.caller import Viewer
from warren_gateway.evaluations import scoring
from warren_gateway.evaluations.samples import is_whole, samples_of
from warren_gateway.runs.newer_versions import readable_config
from warren_gateway.runs.owned import NoSuchRun, readable_run
from warren_gateway.store.store import Store
from warren_gateway.store.tables import EvaluationRow, GroupRow, Run
from warren_schemas.config import TrainConfig
from warren_schemas.events import RunState
from warren_schemas.http import (
    EvaluationList,
    EvaluationReport,
    EvaluationState,
    EvaluationSummary,
)
from warren_schemas.ids import RunId


class NoSuchEvaluation(Exception):
    """The run has none of this number, or none at all yet; says which."""


class Evaluations:
    def __init__(self, store: Store) -> None:
        self._store = store

    async def list(self, viewer: Viewer, run: str) -> EvaluationList:
        """Oldest first. Raises `NoSuchRun`, `StoreUnavailable`."""
        return await self._store.read(lambda session: _list(session, viewer, run))

    async def report(
        self, viewer: Viewer, run: str, number: int | None, solved_at: float
    ) -> EvaluationReport:
        """The results by now, of the newest one where no number is given.

        Raises `NoSuchRun`, `NoSuchEvaluation`, `StoreUnavailable`.
        """
        summary, groups, config = await self._store.read(
            lambda session: _found(session, viewer, run, number)
        )
        return await asyncio.to_thread(_report, summary, groups, config, solved_at)


def _list(session: Session, viewer: Viewer, run: str) -> EvaluationList:
    row = _readable(session, viewer, run)
    query = select(EvaluationRow).where(col(EvaluationRow.run_id) == row.id)
    found = session.exec(query.order_by(col(EvaluationRow.number)))
    config = readable_config(row)
    return EvaluationList(evaluations=tuple(_summary(one, row, config) for one in found))


def _found(
    session: Session, viewer: Viewer, run: str, number: int | None
) -> tuple[EvaluationSummary, Sequence[GroupRow], TrainConfig]:
    row = _readable(session, viewer, run)
    evaluation, config = _evaluation(session, run, number), readable_config(row)
    if config is None:
        raise NoSuchEvaluation(f"Run {run} is of a newer gateway, and this one can't read it")
    query = select(GroupRow).where(
        col(GroupRow.run_id) == run, col(GroupRow.evaluation) == evaluation.number
    )
    groups = session.exec(query.order_by(col(GroupRow.number))).all()
    for group in groups:
        session.expunge(group)
    return _summary(evaluation, row, config), groups, config


def _readable(session: Session, viewer: Viewer, run: str) -> Run:
    row = readable_run(session, viewer, run)
    if row is None:
        raise NoSuchRun(run)
    return row


def _evaluation(session: Session, run: str, number: int | None) -> EvaluationRow:
    query = select(EvaluationRow).where(col(EvaluationRow.run_id) == run)
    if number is not None:
        query = query.where(col(EvaluationRow.number) == number)
    found = session.exec(query.order_by(col(EvaluationRow.number).desc())).first()
    if found is None:
        which = "evaluation yet" if number is None else f"evaluation {number}"
        raise NoSuchEvaluation(f"Run {run} has no {which}")
    return found


def _summary(row: EvaluationRow, run: Run, config: TrainConfig | None) -> EvaluationSummary:
    """What was under way when its run ended is abandoned."""
    state = EvaluationState(row.state)
    if state is EvaluationState.RUNNING and RunState(run.state).is_final:
        state = EvaluationState.ABANDONED
    return EvaluationSummary.model_validate(
        {
            "run": RunId(run.id),
            "number": row.number,
            "when": row.occasion,
            "step": row.step,
            "version": row.version,
            "state": state,
            "n_planned": row.n_planned,
            "samples": row.samples,
            "of_recorded": config is not None and config.evaluates_recorded,
            "started_s": row.started_s,
            "ended_s": row.ended_s,
        }
    )


def _report(
    summary: EvaluationSummary, groups: Sequence[GroupRow], config: TrainConfig, solved_at: float
) -> EvaluationReport:
    samples, most = list(samples_of(groups, config)), summary.samples
    found = {
        "solved_at": solved_at,
        "n_incomplete_groups": sum(not is_whole(group) for group in groups),
        "scores": scoring.scores(samples, most, solved_at),
        "categories": scoring.categories(samples, most, solved_at),
        "environments": scoring.environments(samples, config, most, solved_at),
        "tasks": scoring.tasks(samples, config),
    }
    return EvaluationReport.model_validate({**dict(summary), **cast("dict[str, object]", found)})
