"""The key of a task: one in every evaluation, of live and of recorded episodes.

Invariant: a task has one key in every evaluation, so samples of it are known as such where a split is
played twice, and two evaluations can be compared task by task. The key is of the environment's name and config,
the data set's exact version if there is one, the split, and what the environment calls the task, or else its number in the
data; of an environment that makes its own tasks and calls them nothing, of what it makes them from: the run's seed, the place among its environments and the index. There, what a run
trained on and what it evaluated are other tasks under the same index. A recorded episode has the key of the config that it was
recorded with, whatever scores it later.

Tasks of a split that call themselves the same have one key here; `samples` adds their numbers where an evaluation holds several,
so these are comparable with those of evaluations that hold several as well.
"""

import hashlib
from collections.abc import Mapping

import orjson

from warren_schemas.episode import EpisodePurpose, EpisodeSpec


def key_of_task(
    environment: str,
    workers: str,
    config: Mapping[str, object],
    split: str,
    *,
    dataset: str | None,
    told_id: str | None,
    number: int | None,
    made_from: tuple[object, ...],
    level: int | None,
) -> str:
    """`told_id`: by the environment; `number`: in the data; `made_from`: what tells tasks apart that an environment makes itself."""
    known: list[object] = [environment, workers, config, split]
    if dataset is not None:
        known.append(dataset)
    if told_id is not None:
        known.append(told_id)
    else:
        known += made_from if number is None else [number]
    if level is not None:
        known.append({"level": level})
    text = orjson.dumps(known, option=orjson.OPT_SORT_KEYS)
    return hashlib.blake2b(text, digest_size=8).hexdigest()


def recorded_task_key(
    spec: EpisodeSpec, told_id: str | None, number: int | None, dataset: str | None
) -> str:
    """Of an episode that was played by this spec; `dataset` is what its run took the tasks from."""
    made_from: tuple[object, ...] = (
        spec.task.order_seed,
        spec.environment_number,
        spec.task.index,
    )
    if spec.purpose is not EpisodePurpose.EVALUATE:
        made_from += (spec.purpose.value,)
    return key_of_task(
        spec.environment,
        "shared" if spec.owner is None else "own",
        spec.environment_config,
        spec.task.split,
        dataset=dataset,
        told_id=told_id,
        number=number,
        made_from=made_from,
        level=spec.task.level,
    )
