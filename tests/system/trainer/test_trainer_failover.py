"""The trainer's child killed, stopped or out of memory: the log is applied again, to the same bits."""

import random
import resource
import signal
from functools import partial
from pathlib import Path

import pytest
from tests.support.forked_models import spawn_ranks
from tests.support.lost_device_trainer import AT_ONCE
from tests.support.poisoned_trainer_child import POISON
from tests.support.trainer import (
    FULL,
    LORA,
    MODEL,
    apply_all,
    done,
    engine_for,
    failed,
    forward_backward,
    opened,
    optim_step,
    random_batch,
    seal_of,
    some_ops,
)
from tests.support.trainer_children import END, child_pid, kill_child, size_bytes, uninterrupted
from tests.support.trainer_owner import Owner, owner_of, serving

from warren_broker.memory.hub import MemoryHub
from warren_broker.topology import train
from warren_gpu_worker.settings import GpuWorkerSettings
from warren_schemas.ids import ModelId, WorkerId
from warren_schemas.training import (
    CriticTerm,
    ModelSpec,
    OpBody,
    OpDone,
    OpFailed,
    OpOutcome,
    SaveState,
)

FULL_AND_CRITIC, LORA_AND_CRITIC = (
    spec.model_copy(update={"critic": True}) for spec in (FULL, LORA)
)
THOROUGH = [pytest.mark.storm, pytest.mark.thorough]


@pytest.mark.parametrize(
    ("spec", "checkpoint_at"),
    [
        pytest.param(FULL_AND_CRITIC, 10, id="full-from-a-checkpoint"),
        pytest.param(LORA_AND_CRITIC, None, id="lora-from-the-start"),
        pytest.param(FULL_AND_CRITIC, None, id="full-from-the-start", marks=THOROUGH),
        pytest.param(LORA_AND_CRITIC, 10, id="lora-from-a-checkpoint", marks=THOROUGH),
    ],
)
async def test_a_killed_child_and_a_replay_give_the_same_bits(
    hub: MemoryHub,
    owner: Owner,
    settings: GpuWorkerSettings,
    base_folder: Path,
    tmp_path: Path,
    spec: ModelSpec,
    checkpoint_at: int | None,
) -> None:
    ops = some_ops(30, seed=3, critic=CriticTerm())
    if checkpoint_at is not None:
        ops[checkpoint_at - 1] = SaveState(name="middle")
    ops.append(END)
    expected = uninterrupted(base_folder, tmp_path / "other", spec, ops)
    async with serving(hub.client("worker"), settings):
        await owner.open(spec, epoch=1)
        await owner.send(1, enumerate(ops, 1))
        last_seen = random.Random(str(spec)).randint((checkpoint_at or 0) + 2, 25)
        await owner.outcome(1, last_seen)
        kill_child()
        await owner.until_held()
        url = None
        if checkpoint_at is not None:
            url = done(owner.outcomes(1)[checkpoint_at]).checkpoint_url
        first = (checkpoint_at or 0) + 1
        await owner.open(spec, epoch=2, next_op=first, checkpoint_url=url)
        outcomes = await owner.apply(2, ops[first - 1 :], first=first)
    assert seal_of(outcomes[-1]) == expected
    before, after = owner.outcomes(1), owner.outcomes(2)
    both = (before.keys() & after.keys()) - {0}
    assert both and all(exact(before[number]) == exact(after[number]) for number in both)


def exact(outcome: OpOutcome) -> OpOutcome:
    """All of it but how long it took."""
    return (
        outcome.model_copy(update={"duration_s": 0.0, "gpu_s": 0.0})
        if isinstance(outcome, OpDone)
        else outcome
    )


async def test_a_child_that_dies_while_it_opens_a_model_loses_the_grant(
    hub: MemoryHub, owner: Owner, settings: GpuWorkerSettings
) -> None:
    async with serving(hub.client("worker"), settings):
        await owner.until(lambda: bool(owner.heartbeats) and bool(owner.heartbeats[-1].offers))
        kill_child(signal.SIGSTOP)
        await owner.grant(FULL, epoch=1)
        await owner.until_held(1)
        kill_child()
        await owner.until_held()
        await owner.grant(FULL, epoch=1)
        await owner.open(FULL, epoch=2)
    late = owner.outcomes(1)
    assert late.keys() <= {0} and all(
        isinstance(answer, OpFailed) and answer.elsewhere for answer in late.values()
    )


async def test_a_child_that_loses_its_device_is_replaced(
    hub: MemoryHub, owner: Owner, settings: GpuWorkerSettings
) -> None:
    """Nobody is told that the op has failed: with the next child, or elsewhere, it need not."""
    spawning = partial(spawn_ranks, module="tests.support.poisoned_trainer_child")
    async with serving(hub.client("worker"), settings, spawn_ranks=spawning):
        await owner.open(LORA, epoch=1)
        await owner.send(1, [(1, forward_backward(random_batch(1), POISON))])
        await owner.until_held()
        assert owner.outcomes(1).keys() == {0}
        await owner.open(LORA, epoch=2)
        after = await owner.apply(2, [forward_backward(random_batch(1)), optim_step()])
        assert done(after[1]).version == 1


async def test_a_child_without_memory_for_an_op_comes_back_with_smaller_passes(
    hub: MemoryHub, owner: Owner, settings: GpuWorkerSettings
) -> None:
    """Where half a gradient is there; `test_trainer_ranks` has it where another rank waits. What can't be cut fails on its own."""
    spawning = partial(spawn_ranks, module="tests.support.small_trainer_child")
    fine, large = forward_backward(random_batch(1)), forward_backward(random_batch(2, [30] * 3))
    long = forward_backward(random_batch(3, [99]))
    changes = {"pack_sequences": False}
    async with serving(
        hub.client("worker"), settings.model_copy(update=changes), spawn_ranks=spawning
    ):
        ops: list[OpBody] = [fine, large, optim_step(), long, optim_step(), fine, optim_step()]
        outcomes = await through_all_epochs(owner, ops)
    assert done(outcomes[2]).version == 1
    assert any("--micro-batch-tokens" in (done(o).notice or "") for o in outcomes[:2])
    assert "out of memory" in failed(outcomes[3])
    assert "op 4: out of memory" in failed(outcomes[4])
    assert done(outcomes[6]).version == 2


async def through_all_epochs(owner: Owner, ops: list[OpBody]) -> list[OpOutcome]:
    """The answers of the first lease in which all ops are answered."""
    for epoch in range(1, 6):
        await owner.open(LORA, epoch)
        await owner.send(epoch, enumerate(ops, 1))
        await owner.until(lambda e=epoch: not owner.held() or len(owner.outcomes(e)) > len(ops))
        if len(owner.outcomes(epoch)) > len(ops):
            return [owner.outcomes(epoch)[number] for number in range(1, len(ops) + 1)]
    raise AssertionError("each lease ended")


async def test_a_device_that_is_lost_ends_the_lease_with_what_to_do_and_the_op_is_done_elsewhere(
    hub: MemoryHub, owner: Owner, settings: GpuWorkerSettings, caplog: pytest.LogCaptureFixture
) -> None:
    """A model is tried out with a few tokens as it is made, which is where it fails."""
    spawning = partial(spawn_ranks, module="tests.support.lost_device_trainer")
    async with serving(hub.client("worker"), settings, spawn_ranks=spawning):
        await owner.grant(LORA, epoch=1)
        await owner.until(lambda: "has ended: its device failed" in caplog.text)
        assert "no CUDA-capable device is detected" in caplog.text
        assert "reboot the machine" in caplog.text
        assert not owner.outcomes(1)
    async with serving(hub.client("other"), settings):
        await owner.open(LORA, epoch=2)
        after = await owner.apply(2, [forward_backward(random_batch(1)), optim_step()])
        assert done(after[1]).version == 1


async def test_who_has_no_device_takes_no_models(
    hub: MemoryHub,
    owner: Owner,
    settings: GpuWorkerSettings,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setenv(AT_ONCE, "1")
    spawning = partial(spawn_ranks, module="tests.support.lost_device_trainer")
    async with serving(hub.client("worker"), settings, spawn_ranks=spawning):
        await owner.until(lambda: "its device failed: the driver has lost the GPU" in caplog.text)
    assert not any(beat.offers for beat in owner.heartbeats)


async def test_a_child_that_hangs_is_killed(
    hub: MemoryHub, owner: Owner, settings: GpuWorkerSettings
) -> None:
    async with serving(hub.client("worker"), settings.model_copy(update={"hang_s": 20.0})):
        await owner.open(FULL, epoch=1)
        kill_child(signal.SIGSTOP)
        await owner.send(1, [(1, forward_backward(random_batch(1)))])
        await owner.until_held()
        await owner.open(FULL, epoch=2)
        await owner.apply(2, [forward_backward(random_batch(1)), optim_step()])


async def test_stopping_in_the_middle_hands_back_what_was_not_answered(
    hub: MemoryHub, owner: Owner, settings: GpuWorkerSettings
) -> None:
    """Leaving takes no longer (see `serving`) with a gap and a long queue of ops."""
    large = forward_backward(random_batch(1, [400] * 40))
    async with serving(hub.client("worker"), settings):
        await owner.open(FULL, epoch=1)
        await owner.send(1, [(1, optim_step())])
        for number in (*range(2, 10), 50):
            await owner.send(1, [(number, large)])
        await owner.outcome(1, 1)
    n_left = await owner.broker.depth(train(MODEL, 1))
    assert n_left is not None
    assert n_left <= 10

    def n_answered() -> int:
        return len(owner.outcomes(1)) - 1

    await owner.until(lambda: 10 - n_answered() <= n_left)  # the last answers may be on their way
    assert n_answered() < 10


async def test_stopping_and_resuming_in_another_process_is_never_having_stopped(
    hub: MemoryHub,
    owner: Owner,
    settings: GpuWorkerSettings,
    base_folder: Path,
    tmp_path: Path,
) -> None:
    """A second run, of a model of its own, goes on from a checkpoint of the first: op by op the same
    losses, and in the end the same bits."""
    ops, k = [*some_ops(20, seed=5), END], 11
    whole = apply_all(opened(engine_for(base_folder, tmp_path / "whole"), LORA), ops)
    async with serving(hub.client("first worker"), settings):
        await owner.open(LORA, epoch=1)
        first = await owner.apply(1, [*ops[:k], SaveState(name="stop")])
        await owner.close(epoch=1)
        await owner.until_held()
    worker = WorkerId("trainer_second")
    async with (
        serving(hub.client("second worker"), settings, worker),
        owner_of(hub.client("second"), ModelId("model_second"), worker) as second,
    ):
        await second.open(LORA, epoch=1, checkpoint_url=done(first[-1]).checkpoint_url)
        rest = await second.apply(1, ops[k:])
    assert [done(o).metrics for o in (*first[:-1], *rest)] == [done(o).metrics for o in whole]
    assert seal_of(rest[-1]) == seal_of(whole[-1])


async def test_a_limit_of_memory_makes_passes_smaller_and_fails_nothing(
    hub: MemoryHub, owner: Owner, settings: GpuWorkerSettings
) -> None:
    """The child may take 24 MiB more; the op needs ten times that in one pass."""
    fine, large = forward_backward(random_batch(1)), forward_backward(random_batch(2, [400] * 40))
    async with serving(hub.client("worker"), settings):
        await owner.open(FULL, epoch=1)
        await owner.apply(1, [fine, optim_step()])
        unlimited = resource.prlimit(child_pid(), resource.RLIMIT_AS)
        limit = size_bytes(child_pid()) + 24 * 1024**2
        resource.prlimit(child_pid(), resource.RLIMIT_AS, (limit, unlimited[1]))
        outcomes = await owner.apply(1, [large, optim_step()], first=3)
    assert "--micro-batch-tokens" in (done(outcomes[0]).notice or "")
    assert done(outcomes[1]).version == 2
