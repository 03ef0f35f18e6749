"""From a run's events to points of curves: tags are those of `warren_schemas.metrics`."""

from warren_gateway.metrics.journal import Entry
from warren_schemas.events import EvaluationCompleted, RunEvent, StateChanged, StepCompleted
from warren_schemas.metrics.rows import tagged


def entry_of(event: RunEvent, offset: int, place: int) -> Entry | None:
    """What the journal keeps of an event; None for one that no curve shows."""
    body = event.body
    if isinstance(body, StepCompleted | EvaluationCompleted):
        step, metrics = body.step, tagged(body)
    elif isinstance(body, StateChanged) and body.state.is_final:
        step, metrics = 0, {}
    else:
        return None
    return Entry(
        offset=offset,
        place=place,
        id=event.envelope.id,
        at_s=event.at_s,
        kind=body.kind,
        step=step,
        metrics=metrics,
        is_last=isinstance(body, StateChanged),
    )
