"""The metrics that runs have reported, as the store keeps them."""

from collections.abc import Sequence
from dataclasses import dataclass

from sqlmodel import Session, col, select

from warren_gateway.runs.owned import owned_run
from warren_gateway.runs.service import NoSuchRun
from warren_gateway.store.store import Store
from warren_gateway.store.tables import MetricsRow
from warren_schemas.events import RunState
from warren_schemas.http import MetricsView

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

    async def page(self, owner: str, run: str, after: int) -> Page:
        """Up to `PAGE` rows behind this number, in order. Raises `NoSuchRun`, `StoreUnavailable`."""
        return await self._store.transact(lambda session: _page(session, owner, run, after))


def _page(session: Session, owner: str, run: str, after: int) -> Page:
    row = owned_run(session, owner, run)
    if row is None:
        raise NoSuchRun(run)
    query = select(MetricsRow).where(col(MetricsRow.run_id) == run, col(MetricsRow.number) > after)
    found = session.exec(query.order_by(col(MetricsRow.number)).limit(PAGE)).all()
    has_all = len(found) < PAGE
    is_over = has_all and RunState(row.state).is_final
    return Page([MetricsView.model_validate(report.body) for report in found], has_all, is_over)
