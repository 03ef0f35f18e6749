"""A trainer is killed at every op, on RabbitMQ, and the weights come out to the last bit.

For every number N of 30 ops (some of them in `make test`, all in `make storm`): a worker whose training process is killed by SIGKILL in the middle of
op N. Its lease ends, is granted anew from the newest checkpoint that was answered, and another
process does the rest. The final weights and optimizer are those of a run that nobody disturbed.
"""

import asyncio
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import pytest
from tests.support.base_models import base_folder
from tests.support.forked_models import spawn_ranks
from tests.support.patience import several_waits
from tests.support.private_rabbit import PrivateRabbit
from tests.support.trainer import (
    BASE,
    FULL,
    LORA,
    apply_all,
    done,
    engine_for,
    opened,
    some_ops,
)
from tests.support.trainer_owner import owner_of, serving

from warren_broker.connect import open_broker
from warren_gpu_worker.settings import GpuWorkerSettings
from warren_schemas.ids import ModelId, WorkerId
from warren_schemas.training import ModelSpec, OpBody, OpDone, SaveState

__all__ = ["base_folder"]

SPAWN_DOOMED = partial(spawn_ranks, module="tests.support.doomed_trainer")
N_OPS = 30
AT_ONCE = 6
SOME = (1, 11, 12, 21, 30)
"""The first and the last, a save, those after saves."""
SAVES = {11: SaveState(name="first"), 20: SaveState(name="second"), N_OPS: SaveState(name="end")}


def the_ops() -> list[OpBody]:
    ops = some_ops(N_OPS, seed=4)
    for number, save in SAVES.items():
        ops[number - 1] = save
    return ops


def seal_of(outcome: OpDone) -> str:
    """The digests of everything in a checkpoint but its configuration."""
    assert outcome.checkpoint_url is not None
    lines = (Path(outcome.checkpoint_url) / "SHA256SUMS").read_text().splitlines()
    return "\n".join(line for line in lines if line.endswith(".safetensors"))


async def survive(url: str, base: Path, folder: Path, spec: ModelSpec, doomed: int) -> str:
    """Train with a process that dies at the doomed op; what came out."""
    settings = GpuWorkerSettings(
        base_models={BASE: str(base)},
        checkpoint_url=str(folder / f"op-{doomed}"),
        device="cpu",
        hang_s=60.0,
    )
    model, worker = ModelId(f"model_{doomed}"), WorkerId(f"trainer_{doomed}")
    ops = the_ops()
    async with (
        open_broker(url, name=f"owner {doomed}") as ours,
        open_broker(url, name=f"worker {doomed}") as theirs,
        owner_of(ours, model, worker) as owner,
        serving(theirs, settings, worker, spawn_ranks=SPAWN_DOOMED),
    ):
        await owner.until(lambda: bool(owner.heartbeats) and bool(owner.heartbeats[-1].offers))
        await owner.open(spec, epoch=1)
        await owner.send(1, enumerate(ops, 1))
        await owner.until_held()
        assert (folder / f"op-{doomed}.died").exists()
        answered = owner.outcomes(1)
        assert doomed not in answered
        saved = max((n for n in SAVES if n in answered), default=0)
        checkpoint = done(answered[saved]).checkpoint_url if saved else None
        await owner.open(spec, epoch=2, next_op=saved + 1, checkpoint_url=checkpoint)
        outcomes = await owner.apply(2, ops[saved:], first=saved + 1)
    return seal_of(done(outcomes[-1]))


@several_waits
@pytest.mark.parametrize(
    "ops",
    [
        pytest.param(SOME, id="some"),
        pytest.param(
            range(1, N_OPS + 1), id="all", marks=[pytest.mark.storm, pytest.mark.thorough]
        ),
    ],
)
@pytest.mark.parametrize("spec", [pytest.param(FULL, id="full"), pytest.param(LORA, id="lora")])
async def test_a_trainer_killed_at_any_op_is_replaced_bit_by_bit(
    private_rabbit: PrivateRabbit,
    base_folder: Path,
    tmp_path: Path,
    spec: ModelSpec,
    ops: Sequence[int],
) -> None:
    undisturbed = apply_all(opened(engine_for(base_folder, tmp_path / "calm"), spec), the_ops())
    expected = seal_of(done(undisturbed[-1]))
    slots = asyncio.Semaphore(AT_ONCE)

    async def one(doomed: int) -> None:
        async with slots:
            found = await survive(private_rabbit.url, base_folder, tmp_path, spec, doomed)
            assert found == expected, doomed

    async with asyncio.TaskGroup() as tasks:
        for doomed in ops:
            tasks.create_task(one(doomed), name=f"killed at op {doomed}")
