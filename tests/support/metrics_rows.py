"""Rows of a run's metrics as the gateway gives them."""

from warren_schemas.events import Phase
from warren_schemas.http import MetricsView


def row(number: int, **metrics: float) -> MetricsView:
    return MetricsView(
        number=number, at_s=float(number), phase=Phase.TRAINING, step=number, version=number,
        n_episodes=number, metrics={tag.replace("_", "/"): v for tag, v in metrics.items()},
    )  # fmt: skip


ROWS = [row(1, reward_mean=0.25), row(2, reward_mean=0.5, loss_total=1.5)]
