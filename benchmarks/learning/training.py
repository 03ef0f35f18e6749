"""One run of an example on a fresh site, and what was heard of it."""

import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from warren.client import connect
from warren.run import Run
from warren_schemas.config import TrainConfig
from warren_schemas.events import EvaluationCompleted, Phase, StepCompleted
from warren_up.site import Site, running
from warren_up.start_view import Unheard

N_STEPS_AVERAGED = 20
"""A batch is small: what a curve starts and ends with is the mean of so many."""
N_STEPS_TOLD = 50


@dataclass
class Record:
    """Training steps and evaluations; times are seconds since the run was submitted."""

    steps: list[tuple[float, StepCompleted]] = field(
        default_factory=list[tuple[float, StepCompleted]]
    )
    evaluations: list[EvaluationCompleted] = field(default_factory=list[EvaluationCompleted])
    wall_s: float = 0.0
    cpu_s: float = 0.0
    """Of all processes, from the start of the site to its end."""

    def curve(self, tag: str) -> list[tuple[float, float]]:
        """Time and value of each step that has the tag."""
        return [(at_s, step.metrics[tag]) for at_s, step in self.steps if tag in step.metrics]

    def ends(self, tag: str) -> tuple[float, float]:
        """The value in the first and in the last steps."""
        values = [value for _, value in self.curve(tag)]
        return _mean(values[:N_STEPS_AVERAGED]), _mean(values[-N_STEPS_AVERAGED:])

    def evaluated(self, tag: str) -> tuple[float, float] | None:
        """The value before and after, on fresh tasks; None if the evaluations don't have it."""
        values = [
            evaluation.reward_mean if tag == "reward/mean" else evaluation.metrics.get(tag)
            for evaluation in self.evaluations
        ]
        first, last = values[0], values[-1]
        return None if first is None or last is None else (first, last)


async def trained(site: Site, config: TrainConfig) -> Record:
    """Raises `RunFailed`."""
    async with (
        running(site, Unheard()),
        connect(site.url, site.key_file.read_text().strip()) as client,
    ):
        began = time.monotonic()
        run = await client.train(config)
        record = await _heard(run, began)
        await run.result()
        record.wall_s = time.monotonic() - began
        return record


async def _heard(run: Run, began: float) -> Record:
    record = Record()
    async for event in run.events():
        match event.body:
            case StepCompleted(phase=Phase.TRAINING) as step:
                record.steps.append((time.monotonic() - began, step))
                if step.step % N_STEPS_TOLD == 0:
                    reward = step.metrics.get("reward/mean", 0.0)
                    print(f"  step {step.step}: reward {reward:.3f}", file=sys.stderr, flush=True)
            case EvaluationCompleted() as evaluation:
                record.evaluations.append(evaluation)
            case _:
                pass
    return record


def site_in(home: Path, port: int, base_model: str) -> Site:
    return Site(home, port, base_models=(base_model,))


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)
