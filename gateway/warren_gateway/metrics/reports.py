"""The metrics that runs have reported, as the store keeps them."""

from collections.abc import Sequence
from dataclasses import dataclass

from sqlmodel import Session, and_, col, or_, select

from warren_gateway.access.caller import Viewer
from warren_gateway.runs.checkpoints import list_checkpoints
from warren_gateway.runs.owned import NoSuchRun, readable_run
from warren_gateway.store.store import Store
from warren_gateway.store.tables import MetricsRow, Run
from warren_schemas.events import Phase, RunState
from warren_schemas.http import (
    CheckpointMetricsList,
    CheckpointMetricsView,
    CheckpointView,
    EvaluationView,
    MetricsView,
)

PAGE = 500
"""Most rows that are read at a time."""


@dataclass(frozen=True, slots=True)
class Page:
    rows: Sequence[MetricsView]
    has_all: bool
    """Nothing more is stored by now."""
    is_over: bool
    """Nothing more will come."""


class Reports:
    def __init__(self, store: Store) -> None:
        self._store = store

    async def page(self, viewer: Viewer, run: str, after: int) -> Page:
        """Up to `PAGE` rows behind this number, in order. Raises `NoSuchRun`, `StoreUnavailable`."""
        return await self._store.read(lambda session: _page(session, viewer, run, after))

    async def at_checkpoints(self, viewer: Viewer, run: str) -> CheckpointMetricsList:
        """What was reported around each checkpoint. Raises `NoSuchRun`, `StoreUnavailable`."""
        return await self._store.read(lambda session: _at_checkpoints(session, viewer, run))


def _page(session: Session, viewer: Viewer, run: str, after: int) -> Page:
    row = _owned(session, viewer, run)
    query = select(MetricsRow).where(col(MetricsRow.run_id) == run, col(MetricsRow.number) > after)
    found = session.exec(query.order_by(col(MetricsRow.number)).limit(PAGE)).all()
    has_all = len(found) < PAGE
    is_over = has_all and RunState(row.state).is_final
    return Page([MetricsView.model_validate(report.body) for report in found], has_all, is_over)


def _owned(session: Session, viewer: Viewer, run: str) -> Run:
    row = readable_run(session, viewer, run)
    if row is None:
        raise NoSuchRun(run)
    return row


def _at_checkpoints(session: Session, viewer: Viewer, run: str) -> CheckpointMetricsList:
    kept = list_checkpoints(session, _owned(session, viewer, run)).checkpoints
    reports = _reports(session, run, [_place(view) for view in kept])
    evaluations = [_evaluation(row) for row in reports if row.phase is Phase.EVALUATION]
    by_place = {(row.phase, row.step): row.metrics for row in reports}
    return CheckpointMetricsList(
        checkpoints=tuple(
            CheckpointMetricsView(
                name=view.name,
                version=view.version,
                step=view.step,
                reward=view.reward,
                evaluation_before=next(
                    (e for e in reversed(evaluations) if e.version <= view.version), None
                ),
                evaluation_after=next((e for e in evaluations if e.version >= view.version), None),
                metrics=by_place.get(_place(view), {}),
            )
            for view in kept
        )
    )


def _place(view: CheckpointView) -> tuple[Phase, int]:
    """The phase and the step of it that a checkpoint was saved after."""
    kind, _, step = view.name.partition("-")
    return (Phase.SFT, int(step)) if kind == "sft" else (Phase.TRAINING, view.step)


def _reports(session: Session, run: str, places: Sequence[tuple[Phase, int]]) -> list[MetricsView]:
    """What these steps reported, and all evaluations, oldest first."""
    phase, step = (
        col(MetricsRow.body)["phase"].as_string(),
        col(MetricsRow.body)["step"].as_integer(),
    )
    steps = {
        of: [number for phase, number in places if phase is of]
        for of in (Phase.SFT, Phase.TRAINING)
    }
    wanted = (and_(phase == of.value, step.in_(numbers)) for of, numbers in steps.items())
    query = select(MetricsRow).where(
        col(MetricsRow.run_id) == run, or_(phase == Phase.EVALUATION.value, *wanted)
    )
    rows = session.exec(query.order_by(col(MetricsRow.number)))
    return [MetricsView.model_validate(row.body) for row in rows]


def _evaluation(row: MetricsView) -> EvaluationView:
    return EvaluationView(
        step=row.step,
        version=row.version,
        n_episodes=row.n_episodes,
        reward_mean=row.metrics["evaluation/reward_mean"],
    )
