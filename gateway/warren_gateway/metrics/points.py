"""From a run's events to points of curves.

A tag is a path with slashes; TensorBoard groups by its first part. The x axis is the run's step
of reinforcement learning; warm-up counts its own steps, so its tags stand below `warmup/`, and those
of evaluations below `evaluation/`.
"""

from warren_gateway.metrics.journal import Entry
from warren_schemas.events import EvaluationCompleted, Phase, RunEvent, StateChanged, StepCompleted


def entry_of(event: RunEvent, offset: int, place: int) -> Entry | None:
    """What the journal keeps of an event; None for one that no curve shows."""
    body = event.body
    if isinstance(body, StepCompleted):
        prefix = "warmup/" if body.phase is Phase.WARMUP else ""
        step, metrics = body.step, _below(prefix, body.metrics)
    elif isinstance(body, EvaluationCompleted):
        reward = {"reward_mean": body.reward_mean}
        step, metrics = body.step, _below("evaluation/", reward | body.metrics)
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


def _below(prefix: str, metrics: dict[str, float]) -> dict[str, float]:
    return {f"{prefix}{tag}": value for tag, value in metrics.items()}
