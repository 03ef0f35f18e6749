"""Runs beside each other: in which keys they differ, and what each reached."""

import asyncio
import json
from collections.abc import Mapping, Sequence
from typing import cast

from warren.errors import ConfigurationError
from warren.run import Run
from warren_schemas.base import Frozen
from warren_schemas.config import TrainConfig
from warren_schemas.http import MetricsView
from warren_schemas.ids import RunId

EVALUATED, TRAINED = "evaluation/reward_mean", "reward/mean"
_AT_ONCE = 8
_NOT_COMPARED = frozenset({"name"})


class ComparedRun(Frozen):
    run: RunId
    name: str
    state: str
    step: int
    differs: dict[str, str]
    """Its values of the keys in which the runs differ, as JSON."""
    best: float | None = None
    """The best value of the metric; None where it reported none."""
    best_step: int | None = None
    last: float | None = None


class RunComparison(Frozen):
    metric: str
    runs: tuple[ComparedRun, ...]
    """The best first; those without the metric last."""


async def compare_runs(
    runs: Sequence[Run], metric: str | None = None, *, lowest: bool = False
) -> RunComparison:
    """By the highest value of a metric, or the lowest; by default the reward in evaluations, or in training where
    not all of them evaluated. Raises `ConfigurationError`."""
    if len(runs) < 2:
        raise ConfigurationError("Nothing to compare with", hint="Name two runs or more.")
    limit = asyncio.Semaphore(_AT_ONCE)

    async def rows_of(run: Run) -> list[MetricsView]:
        async with limit:
            return await run.metrics([metric] if metric else [EVALUATED, TRAINED]).to_list()

    rows = await asyncio.gather(*map(rows_of, runs))
    tag = metric or (EVALUATED if all(_points(each, EVALUATED) for each in rows) else TRAINED)
    differing = differences([run.view.config for run in runs])
    compared = [
        _compared(run, found, _points(each, tag), lowest=lowest)
        for run, found, each in zip(runs, differing, rows, strict=True)
    ]
    sign = 1.0 if lowest else -1.0
    compared.sort(key=lambda one: (one.best is None, sign * (one.best or 0.0)))
    return RunComparison(metric=tag, runs=tuple(compared))


def differences(configs: Sequence[TrainConfig | None]) -> list[dict[str, str]]:
    """Of each config its values of the keys in which they are not all alike."""
    flat = [{} if config is None else flattened(config) for config in configs]
    keys = dict.fromkeys(key for one in flat for key in one)
    varied = [key for key in keys if len({one.get(key) for one in flat}) > 1]
    return [{key: one.get(key, "") for key in varied} for one in flat]


def flattened(config: TrainConfig) -> dict[str, str]:
    """Each leaf by its key, as JSON; a list of plain values is one."""
    found: dict[str, str] = {}
    _flatten(config.model_dump(mode="json"), "", found)
    return {key: value for key, value in found.items() if key not in _NOT_COMPARED}


def _flatten(value: object, path: str, found: dict[str, str]) -> None:
    below: Mapping[str, object] | None = None
    if isinstance(value, dict) and value:
        below = cast("dict[str, object]", value)
    elif isinstance(value, list):
        entries = cast("list[object]", value)
        if any(isinstance(entry, dict) for entry in entries):
            below = {str(number): entry for number, entry in enumerate(entries)}
    if below is None:
        found[path] = json.dumps(value)
        return
    for key, entry in below.items():
        _flatten(entry, f"{path}.{key}" if path else key, found)


def _points(rows: Sequence[MetricsView], tag: str) -> list[tuple[float, int]]:
    return [(row.metrics[tag], row.step) for row in rows if tag in row.metrics]


def _compared(
    run: Run, differs: dict[str, str], points: Sequence[tuple[float, int]], *, lowest: bool
) -> ComparedRun:
    chosen = min if lowest else max
    best = chosen(points, key=lambda point: point[0]) if points else None
    return ComparedRun(
        run=run.id,
        name=run.view.name,
        state=run.state.value,
        step=run.view.step,
        differs=differs,
        best=best[0] if best else None,
        best_step=best[1] if best else None,
        last=points[-1][0] if points else None,
    )
