"""Two ranks that train one model: one lost, frozen or without memory, and the other goes with it.

One worker serves all tests of this file, for its two processes take long to start; so models differ
by epoch, and a test may leave ranks that were just started.
"""

import asyncio
import itertools
import resource
import signal
from collections.abc import AsyncGenerator, Iterator
from pathlib import Path

import pytest
import pytest_asyncio
from tests.support.patience import PATIENCE_S, several_waits
from tests.support.trainer import (
    BASE,
    FULL,
    LORA,
    done,
    failed,
    forward_backward,
    optim_step,
    random_batch,
    seal_of,
    some_ops,
)
from tests.support.trainer_children import END, child_pid, kill_child, size_bytes
from tests.support.trainer_owner import WORKER, Owner, owner_of, serving

from warren_broker.batch_publisher import BatchPublisher
from warren_broker.inbox import receive
from warren_broker.memory import open_hub
from warren_broker.memory.hub import MemoryHub
from warren_broker.topology import jobs, results, trainer
from warren_gateway.scheduling.decision import WaitingJob, decide
from warren_gateway.scheduling.trainer_states import trainer_states
from warren_gpu_worker.settings import GpuWorkerSettings
from warren_schemas.control import Heartbeat
from warren_schemas.envelope import Envelope
from warren_schemas.ids import ModelId, RunId
from warren_schemas.training import (
    CloseModel,
    CriticTerm,
    Job,
    JobTaken,
    KeepForJob,
    ModelSpec,
    OpBody,
    SaveState,
)

pytestmark = [pytest.mark.asyncio(loop_scope="module"), several_waits]

WITH_CRITIC = {"critic": True}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def pair_hub() -> AsyncGenerator[MemoryHub]:
    async with open_hub() as hub:
        yield hub


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def pair_owner(
    pair_hub: MemoryHub, base_folder: Path, tmp_path_factory: pytest.TempPathFactory
) -> AsyncGenerator[Owner]:
    settings = GpuWorkerSettings(
        base_models={BASE: str(base_folder)},
        checkpoint_url=str(tmp_path_factory.mktemp("checkpoints")),
        device="cpu",
        devices=2,
        micro_batch_tokens=32_768,
        hang_s=60.0,
        log_dir=tmp_path_factory.mktemp("trainer") / "not" / "there",
    )
    async with (
        serving(pair_hub.client("worker"), settings),
        owner_of(pair_hub.client("owner")) as owner,
    ):
        yield owner


@pytest.fixture(scope="module")
def epochs() -> Iterator[int]:
    return itertools.count(1)


@pytest.mark.parametrize(
    ("spec", "rank", "signum"),
    [
        pytest.param(LORA, 1, signal.SIGKILL, id="lora-second-killed"),
        pytest.param(
            LORA,
            0,
            signal.SIGKILL,
            id="lora-first-killed",
            marks=[pytest.mark.storm, pytest.mark.thorough],
        ),
        pytest.param(FULL, 1, signal.SIGSTOP, id="full-second-frozen"),
    ],
)
async def test_two_ranks_fail_over_as_one_whichever_is_lost(
    pair_owner: Owner, epochs: Iterator[int], spec: ModelSpec, rank: int, signum: signal.Signals
) -> None:
    """With the other one waiting for it in the middle of an op: nobody hangs, and in the end the bits
    are those of a run that nothing happened to."""
    owner, spec = pair_owner, spec.model_copy(update=WITH_CRITIC)
    ops: list[OpBody] = [*some_ops(10, seed=3, critic=CriticTerm()), END]
    ops[2] = SaveState(name="middle")
    first = next(epochs)
    await owner.open(spec, first)
    saved = (await owner.apply(first, ops[:5]))[2]
    if signum is signal.SIGSTOP:
        kill_child(signum, rank)
    await owner.send(first, enumerate(ops[5:], 6))
    if signum is signal.SIGKILL:
        kill_child(signum, rank)
    await owner.until_held()
    if signum is signal.SIGSTOP:
        assert owner.outcomes(first).keys() == set(range(6))
    second = next(epochs)
    await owner.open(spec, second, next_op=4, checkpoint_url=done(saved).checkpoint_url)
    after = await owner.apply(second, ops[3:], first=4)
    undisturbed = next(epochs)
    await owner.open(spec, undisturbed)
    expected = await owner.apply(undisturbed, ops)
    assert seal_of(after[-1]) == seal_of(expected[-1])


async def test_a_worker_of_several_devices_holds_one_model(
    pair_hub: MemoryHub, pair_owner: Owner, epochs: Iterator[int]
) -> None:
    async with owner_of(pair_hub.client("second"), ModelId("model_second")) as second:
        await pair_owner.open(LORA, next(epochs))
        await second.grant(LORA, epoch=1)
        assert "has no capacity for the model" in failed(await second.outcome(1, 0))


async def test_it_takes_jobs_that_need_all_its_devices_and_those_that_need_fewer(
    pair_hub: MemoryHub, pair_owner: Owner, epochs: Iterator[int]
) -> None:
    """As the scheduler decides about them: it keeps the worker for the former before it publishes their jobs."""
    await pair_owner.close(next(epochs))
    await pair_owner.until_held()
    await pair_owner.until(lambda: BASE in pair_owner.heartbeats[-1].offers)
    assert pair_owner.heartbeats[-1].n_devices == 2
    model, broker = ModelId("model_asking"), pair_hub.client("asking")
    publisher = BatchPublisher(broker)
    async with (
        asyncio.timeout(PATIENCE_S),
        receive(broker, results(model), JobTaken, prefetch=1) as taken,
    ):
        for epoch, n_gpus in enumerate((1, 2), 1):
            kept_for = _kept_for(model, n_gpus, pair_owner.heartbeats[-1])
            assert kept_for == (model if n_gpus == 2 else None)
            await publisher.send(trainer(WORKER), KeepForJob(envelope=Envelope(), model=kept_for))
            await pair_owner.until(lambda: pair_owner.heartbeats[-1].kept_for == kept_for)  # noqa: B023
            job = Job(envelope=Envelope(), model=model, epoch=epoch, spec=LORA)
            await publisher.send(jobs(BASE, is_full=False, n_gpus=n_gpus), job)
            (claim,) = await anext(taken)
            claim.done()
            assert (claim.item.epoch, claim.item.worker) == (epoch, WORKER)
            leave = CloseModel(envelope=Envelope(), model=model, epoch=epoch)
            await publisher.send(trainer(WORKER), leave)


def _kept_for(model: ModelId, n_gpus: int, beat: Heartbeat) -> ModelId | None:
    """Whom the scheduler keeps this trainer for, once it has admitted a LoRA job of so many GPUs to it."""
    run = RunId(model)
    job = WaitingJob(
        model, run, "ann", BASE, is_full=False, n_gpus=n_gpus, memory_bytes=None, priority=0,
        queued_s=0.0, number=1, is_interrupted=False, blocked_by=None,
    )  # fmt: skip
    states = trainer_states([beat], [], {}, (), {})
    decision = decide([job], [], states, {}, now_s=0.0)
    assert decision.admitted == (model,)
    return decision.reserved.get(beat.worker)


async def test_no_memory_on_one_rank_ends_both_and_the_op_comes_again_in_smaller_passes(
    pair_owner: Owner, epochs: Iterator[int]
) -> None:
    """The rank can't tell the other one in the middle of an op, so both end; the op does so once."""
    owner = pair_owner
    fine, large = forward_backward(random_batch(1)), forward_backward(random_batch(2, [400] * 80))
    ops = [fine, optim_step(), large, optim_step(), fine, optim_step()]
    first, again = next(epochs), next(epochs)
    await owner.open(FULL, first)
    await owner.apply(first, ops[:2])
    limit = size_bytes(child_pid(rank=1)) + 24 * 1024**2
    resource.prlimit(child_pid(rank=1), resource.RLIMIT_AS, (limit, limit))
    await owner.send(first, [(3, large)])
    await owner.until_held()
    await owner.open(FULL, again)
    outcomes = await owner.apply(again, ops)
    assert 3 not in owner.outcomes(first)
    assert "--micro-batch-tokens 8000" in (
        done(outcomes[0]).notice or ""
    )  # half of what a rank has
    assert done(outcomes[5]).version == 3
