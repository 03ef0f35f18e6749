"""Reports of a run as rows: each tag is one and the same wherever metrics are read.

SFT counts its own steps, so its tags stand below `sft/`, and those of evaluations below
`evaluation/`: no curve mixes points of two kinds.
"""

from warren_schemas.events import EvaluationCompleted, Phase, StepCompleted
from warren_schemas.http import MetricsView


def metrics_view(
    body: StepCompleted | EvaluationCompleted, number: int, at_s: float
) -> MetricsView:
    """The row of a step or an evaluation."""
    is_step = isinstance(body, StepCompleted)
    return MetricsView(
        number=number,
        at_s=at_s,
        phase=body.phase if is_step else Phase.EVALUATION,
        when=None if is_step else body.when,
        step=body.step,
        version=body.version,
        n_episodes=body.n_episodes,
        metrics=tagged(body),
    )


def tagged(body: StepCompleted | EvaluationCompleted) -> dict[str, float]:
    """The metrics under the tags that people see."""
    if isinstance(body, EvaluationCompleted):
        return _below("evaluation/", {"reward_mean": body.reward_mean} | body.metrics)
    return _below("sft/" if body.phase is Phase.SFT else "", body.metrics)


def _below(prefix: str, metrics: dict[str, float]) -> dict[str, float]:
    return {f"{prefix}{tag}": value for tag, value in metrics.items()}
