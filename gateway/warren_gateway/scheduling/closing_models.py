"""Models that trainers are about to close: their runs are over, and the order is on its way.

Their slots count as free, so that the next job's message is on its way meanwhile. Whichever trainer has room takes
it, as ever.

Invariant: for `GRACE_S` only, by the store's clock. The slot of a trainer that has not heard of it by then is taken until it says otherwise.
"""

from collections.abc import Collection, Sequence

from sqlmodel import Session, col, select

from warren_gateway.store.clock import store_time_s
from warren_gateway.store.tables import JobRow, Model
from warren_schemas.control import Heartbeat
from warren_schemas.ids import ModelId

GRACE_S = 5.0


def closing_models(
    session: Session, trainers: Sequence[Heartbeat], held: Collection[ModelId]
) -> frozenset[ModelId]:
    """Of those that trainers list; `held`: models whose jobs are not over."""
    listed = {one.model for beat in trainers for one in beat.models} - set(held)
    if not listed:
        return frozenset()
    now_s = store_time_s(session)
    query = (
        select(Model.id)
        .join(JobRow, col(JobRow.run_id) == col(Model.run_id))
        .where(col(Model.id).in_(listed))
        .where(col(JobRow.state) == "over")
        .where(col(JobRow.over_s) > now_s - GRACE_S, col(JobRow.over_s) <= now_s)
    )
    return frozenset(ModelId(model) for model in session.exec(query))
