"""What a config needs of the workers that are online: models, environments, their keys, splits and levels.

Rule: a worker that is not online at all may yet come, so what only it could tell is a note and no
mistake. What the workers that are there don't know is one: it is far more often a wrong name.
"""

from collections.abc import Iterator, Sequence

from warren_gateway.advice import Advice
from warren_gateway.coordinator.lease.trainer_lease import able_trainers
from warren_gateway.coordinator.waiting import (
    Alive,
    missing_environment,
    nobody_offers,
    nobody_trains,
)
from warren_gateway.loadable import coming
from warren_gateway.runs.ownership import played_by
from warren_schemas.config import EnvironmentConfig, RecordedSource, TrainConfig
from warren_schemas.control import EnvironmentShape, Heartbeat, WorkerRole
from warren_schemas.text.explain import nearest


def mistakes_and_notes(
    config: TrainConfig, owner: str, alive: Alive, advice: Advice, *, learns_recorded: bool
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """`learns_recorded`: the rows that it is fine-tuned on are recorded episodes."""
    mistakes: list[str] = []
    notes: list[str] = []
    source = config.source
    plays = not isinstance(source, RecordedSource) and not (config.only_tunes and learns_recorded)
    uses_environments = not isinstance(source, RecordedSource) or source.is_scored
    for key, reason, may_come in _without_workers(config, plays, alive, advice):
        (notes if may_come else mistakes).append(f"{key}: {reason}")
    for number, environment in enumerate(config.environments if uses_environments else ()):
        place = f"environments.{number}"
        workers = alive(WorkerRole.ENVIRONMENT)
        reason = missing_environment(advice, environment, owner, workers)
        if reason is not None:
            asked = [w for w in workers if w.owner == played_by(environment, owner)]
            (mistakes if asked else notes).append(f"{place}.name: {reason}")
            continue
        shapes = _shapes(environment, owner, workers)
        splits = config.played_splits(number)
        mistakes += [f"{place}.{line}" for line in _misfits(environment, splits, shapes)]
        if not any(shape.keys is not None for shape in shapes):
            notes.append(f"{place}.config: the env workers don't know the keys of this environment")
    return tuple(dict.fromkeys(mistakes)), tuple(dict.fromkeys(notes))


def _without_workers(
    config: TrainConfig, plays: bool, alive: Alive, advice: Advice
) -> Iterator[tuple[str, str, bool]]:
    """Keys of the model that no trainer, or no sampler, has what is needed for; why, and whether one may yet come."""
    base, n_gpus = config.model.base, config.model.gpus
    trainers, samplers = alive(WorkerRole.TRAINER), alive(WorkerRole.SAMPLER)
    is_trained = any(base in beat.offers for beat in trainers)
    if config.needs_trainer and (reason := nobody_trains(advice, base, n_gpus, trainers)):
        key = "model.gpus" if is_trained else "model.base"
        yield key, reason, _may_come(base, trainers, is_told=True)
    if plays and not any(base in beat.offers for beat in samplers):
        is_told = not able_trainers(base, n_gpus, trainers)
        reason = nobody_offers(advice, WorkerRole.SAMPLER, base, samplers, is_told=is_told)
        yield "model.base", reason, _may_come(base, samplers, is_told=is_told)


def _may_come(base: str, workers: Sequence[Heartbeat], *, is_told: bool) -> bool:
    is_alone = not any(worker.offers for worker in workers)
    return is_alone or coming(base, workers, is_told=is_told) is not None


def _shapes(
    environment: EnvironmentConfig, owner: str, workers: Sequence[Heartbeat]
) -> list[EnvironmentShape]:
    player = played_by(environment, owner)
    return [
        shape
        for worker in workers
        if worker.owner == player
        for shape in worker.shapes
        if shape.name == environment.name
    ]


def _misfits(
    environment: EnvironmentConfig, splits: Sequence[str], shapes: Sequence[EnvironmentShape]
) -> Iterator[str]:
    """What no worker's environment of this name would take: they may be of several versions. `splits` are keys."""
    told = [list(_misfits_of_one(environment, splits, shape)) for shape in shapes]
    if told and all(told):
        yield from min(told, key=len)


def _misfits_of_one(
    environment: EnvironmentConfig, splits: Sequence[str], shape: EnvironmentShape
) -> Iterator[str]:
    if shape.keys is not None:
        for key in environment.config:
            if key not in shape.keys:
                yield f"config.{key}: unknown key{_meant(key, shape.keys)}"
        for key in shape.required:
            if key not in environment.config:
                yield f"config.{key}: missing"
    curriculum = environment.curriculum
    if curriculum is not None and curriculum.over == "levels" and shape.has_levels is False:
        yield f"curriculum: {environment.name} has no levels; leave it out, or take over: tasks"
    if not shape.splits or environment.config or environment.dataset:  # they bring other data
        return
    for key in splits:
        if (split := getattr(environment, key)) not in shape.splits:
            yield f"{key}: {environment.name} has no split {split!r}{_meant(split, shape.splits)}"


def _meant(word: str, known: Sequence[str]) -> str:
    match = nearest(word, known)
    return f"; did you mean {match}?" if match else f"; there are: {', '.join(known) or 'none'}"
