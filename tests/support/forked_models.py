"""Samplers and trainers whose children are forks of a process that has torch already: each costs milliseconds.

On a machine without a GPU the product starts them so, too, from a fork server of each worker. Here one serves all workers of
a process of tests, as long as that lives.
"""

import asyncio
from collections.abc import Callable
from functools import partial
from types import CoroutineType
from typing import Any, ParamSpec

from tests.support.forked_children import Zygote

from warren_broker.worker.child import Child
from warren_gpu_worker.sampler.supervisor.child_process import SamplerProcess
from warren_gpu_worker.trainer.supervisor.rank_processes import RankProcesses

P = ParamSpec("P")
_ZYGOTE = Zygote(
    "warren_gpu_worker.sampler.child.main",
    "warren_gpu_worker.trainer.child.main",
    "transformers.models.auto.modeling_auto",
    "transformers.models.auto.tokenization_auto",
    "peft",
)


def _once_started(
    spawn: "Callable[P, CoroutineType[Any, Any, Child]]",
) -> "Callable[P, CoroutineType[Any, Any, Child]]":
    """The event loop goes on while the zygote starts."""

    async def spawned(*args: P.args, **kwargs: P.kwargs) -> Child:
        await asyncio.to_thread(_ZYGOTE.start)
        return await spawn(*args, **kwargs)

    return spawned


spawn_child = _once_started(partial(Child.spawn, execute=_ZYGOTE.execute))
spawn_ranks = partial(RankProcesses.spawn, spawn_child=spawn_child)
make_sampler_process = partial(SamplerProcess, spawn_child=spawn_child)
