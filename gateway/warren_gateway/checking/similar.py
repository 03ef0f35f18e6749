"""What a run will cost, by what the last similar ones have cost.

Runs are similar that train the same base model in the same way, on the same environments, from the same kind of source, with
or without SFT, and have completed. What they cost for each episode that their config planned is taken for what this one will:
so episodes that were dropped and played again are in it, while attempts that failed have a part in the time alone. A run that
ended before its last step costs less, and one with other lengths of answers more: it is an expectation and no bound.

A replay without evaluation samples nothing: the tokens that it counts are those of the recording.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from sqlmodel import Session, col, select

from warren_gateway.access.caller import Viewer
from warren_gateway.checking.estimate import estimate
from warren_gateway.runs.newer_versions import readable_config, readable_result
from warren_gateway.store.tables import Run
from warren_schemas.check import RunExpectation
from warren_schemas.config import LARGEST_INT, RecordedSource, TrainConfig
from warren_schemas.events import RunState
from warren_schemas.ids import RunId

MOST_RUNS = 5
MOST_LOOKED_AT = 200


@dataclass(frozen=True, slots=True)
class _Cost:
    """Of one run, for each episode that its config planned."""

    run: RunId
    episodes: float
    tokens: float
    wall_s: float


def expectation(session: Session, viewer: Viewer, config: TrainConfig) -> RunExpectation | None:
    """None where this viewer has no similar run, or the config plans no episodes."""
    planned, costs = _planned(config), list(_costs(session, viewer, config))
    if not planned or not costs:
        return None
    tokens = _mean([cost.tokens for cost in costs])
    times_s = [cost.wall_s * planned for cost in costs]
    return RunExpectation(
        runs=tuple(cost.run for cost in costs),
        episodes=_whole(planned * _mean([cost.episodes for cost in costs])),
        sampled_tokens=_whole(planned * tokens) if _samples(config) else 0,
        wall_s=_mean(times_s),
        least_wall_s=min(times_s),
        most_wall_s=max(times_s),
    )


def _costs(session: Session, viewer: Viewer, config: TrainConfig) -> Iterator[_Cost]:
    wanted, n_found = _kind(config), 0
    newest = (
        select(Run)
        .where(col(Run.owner) == viewer.user, col(Run.state) == RunState.COMPLETED.value)
        .order_by(col(Run.created_s).desc())
        .limit(MOST_LOOKED_AT)
    )
    for row in session.exec(newest):
        its, result = readable_config(row), readable_result(row)
        if its is None or result is None or _kind(its) != wanted or not (n := _planned(its)):
            continue
        yield _Cost(RunId(row.id), result.episodes / n, result.tokens / n, result.wall_s / n)
        n_found += 1
        if n_found == MOST_RUNS:
            return


def _kind(config: TrainConfig) -> object:
    environments = frozenset(environment.name for environment in config.environments)
    update, source = config.model.update.kind, config.source.kind
    trains = config.limits.steps > 0, config.sft is not None
    return config.model.base, update, source, environments, trains


def _samples(config: TrainConfig) -> bool:
    is_evaluated_live = config.evaluation is not None and not config.evaluates_recorded
    return is_evaluated_live or not isinstance(config.source, RecordedSource)


def _planned(config: TrainConfig) -> int:
    bounds = estimate(config, None)
    return bounds.training_episodes + bounds.evaluation_episodes + bounds.demonstrations


def _mean(values: list[float]) -> float:
    return sum(values) / len(values)


def _whole(number: float) -> int:
    return min(round(number), LARGEST_INT)
