"""Samplers and trainers whose children are forks of a process that has torch already: each costs milliseconds.

On a machine without a GPU the product starts them so, too, from a fork server of each worker. Here one serves all workers of
a process of tests, as long as that lives.
"""

import asyncio
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

from tests.support.forked_children import Zygote

from warren_broker.worker.child import Child
from warren_gpu_worker.sampler.supervisor.child_process import SamplerProcess
from warren_gpu_worker.trainer.supervisor.rank_processes import RankProcesses

_ZYGOTE = Zygote(
    "warren_gpu_worker.sampler.child.main",
    "warren_gpu_worker.trainer.child.main",
    "transformers.models.auto.modeling_auto",
    "transformers.models.auto.tokenization_auto",
    "peft",
)


async def spawn_child(
    name: str,
    module: str,
    arguments: Sequence[str] = (),
    *,
    n_threads: int = 1,
    environment: Mapping[str, str] | None = None,
    log_path: Path | None = None,
) -> Child:
    """In place of `Child.spawn`. The event loop goes on while the zygote starts."""
    await asyncio.to_thread(_ZYGOTE.start)
    return await Child.spawn(
        name,
        module,
        arguments,
        n_threads=n_threads,
        environment=environment,
        log_path=log_path,
        execute=_ZYGOTE.execute,
    )


spawn_ranks = partial(RankProcesses.spawn, spawn_child=spawn_child)
make_sampler_process = partial(SamplerProcess, spawn_child=spawn_child)
