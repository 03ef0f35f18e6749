"""Trainers whose children are forks of a process that has torch already: each costs milliseconds."""

from functools import partial

import pytest
from tests.support.forked_children import Zygote

from warren_broker.worker.child import Child
from warren_gpu_worker.trainer.supervisor.rank_processes import RankProcesses, SpawnRanks

_MODULE = "tests.support.doomed_trainer"


@pytest.fixture(scope="session")
def zygote() -> Zygote:
    zygote = Zygote(_MODULE, "peft", "transformers")
    zygote.start()
    return zygote


@pytest.fixture
def spawn_forked(zygote: Zygote) -> SpawnRanks:
    spawn_child = partial(Child.spawn, execute=zygote.execute)
    return partial(RankProcesses.spawn, module=_MODULE, spawn_child=spawn_child)
