"""The trainer as a service: real child processes, killed and stopped, on the in-process broker."""

import asyncio
import os
import random
import resource
import signal
from collections.abc import AsyncGenerator
from pathlib import Path

import pytest
import pytest_asyncio
import torch
from tests.support.trainer import (
    BASE,
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
    tiny_base,
)
from tests.support.trainer_owner import PATIENCE_S, WORKER, Owner, owner_of, serving

from warren_broker.memory import open_hub
from warren_broker.memory.hub import MemoryHub
from warren_broker.topology import CHORES, train, trainer
from warren_gpu_worker.sealed_folder import delete_folder
from warren_gpu_worker.settings import GpuWorkerSettings
from warren_gpu_worker.trainer import chores, lease
from warren_gpu_worker.trainer.publishing import KEEP_POLICIES
from warren_gpu_worker.weights import fetch_policy
from warren_schemas.config import CrossEntropyLoss
from warren_schemas.control import WorkerRole
from warren_schemas.envelope import Envelope
from warren_schemas.ids import ModelId, WorkerId
from warren_schemas.training import (
    CriticTerm,
    DeleteModel,
    ModelSpec,
    Op,
    OpBody,
    OpDone,
    OpFailed,
    OpOutcome,
    PublishPolicy,
    SaveState,
)

WITH_CRITIC = [spec.model_copy(update={"critic": True}) for spec in (FULL, LORA)]
END = SaveState(name="end")


@pytest.fixture(scope="module")
def base_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    torch.set_num_threads(1)
    return tiny_base(tmp_path_factory.mktemp("models"))


@pytest.fixture
def settings(base_folder: Path, tmp_path: Path) -> GpuWorkerSettings:
    return GpuWorkerSettings(
        base_models={BASE: str(base_folder)},
        checkpoint_url=str(tmp_path / "checkpoints"),
        device="cpu",
        hang_s=60.0,
    )


@pytest_asyncio.fixture
async def hub() -> AsyncGenerator[MemoryHub]:
    async with open_hub() as hub:
        yield hub


@pytest_asyncio.fixture
async def owner(hub: MemoryHub) -> AsyncGenerator[Owner]:
    async with owner_of(hub.client("owner")) as owner:
        yield owner


def child_pid(rank: int = 0) -> int:
    """The training child of this process."""
    ours = Path(f"/proc/{os.getpid()}/task").glob("*/children")
    pids = [int(pid) for file in ours for pid in file.read_text().split()]
    (found,) = [pid for pid in pids if _rank_of(pid) == rank]
    return found


def _rank_of(pid: int) -> int | None:
    """None for what is no training child: -m MODULE SETTINGS RANK MEETING."""
    arguments = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    module = b"warren_gpu_worker.trainer.child"
    return int(arguments[arguments.index(module) + 2]) if module in arguments else None


def kill_child(signum: signal.Signals = signal.SIGKILL, rank: int = 0) -> None:
    os.kill(child_pid(rank), signum)


def size_bytes(pid: int) -> int:
    """Of the process's address space."""
    pages = Path(f"/proc/{pid}/statm").read_text().split()[0]
    return int(pages) * resource.getpagesize()


def policy_of(outcome: OpOutcome) -> str:
    policy = done(outcome).policy
    assert policy is not None
    return policy.url


def uninterrupted(base_folder: Path, folder: Path, spec: ModelSpec, ops: list[OpBody]) -> str:
    engine = opened(engine_for(base_folder, folder), spec)
    return seal_of(apply_all(engine, ops)[-1])


@pytest.mark.parametrize("spec", WITH_CRITIC, ids=["full", "lora"])
@pytest.mark.parametrize("checkpoint_at", [None, 10])
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
    assert both and all(before[number] == after[number] for number in both)


@pytest.mark.timeout(300)
async def test_two_ranks_fail_over_as_one_whichever_is_lost(
    hub: MemoryHub, owner: Owner, settings: GpuWorkerSettings
) -> None:
    """Killed or frozen, with the other one waiting for it in the middle of an op: nobody hangs, and
    in the end the bits are those of a run that nothing happened to."""
    ops: list[OpBody] = [*some_ops(20, seed=3), END]
    ops[5] = SaveState(name="middle")
    settings = settings.model_copy(update={"devices": 2, "hang_s": 10.0})
    async with serving(hub.client("worker"), settings):
        await owner.open(FULL, epoch=1)
        await owner.send(1, enumerate(ops, 1))
        await owner.outcome(1, 8)
        kill_child(rank=1)
        await owner.until_held()
        url = done(owner.outcomes(1)[6]).checkpoint_url
        await owner.open(FULL, epoch=2, next_op=7, checkpoint_url=url)
        kill_child(signal.SIGSTOP, rank=1)
        await owner.send(2, enumerate(ops[6:], 7))
        await owner.until_held()
        assert 7 not in owner.outcomes(2)
        await owner.open(FULL, epoch=3, next_op=7, checkpoint_url=url)
        after = await owner.apply(3, ops[6:], first=7)
        await owner.open(FULL, epoch=4)
        undisturbed = await owner.apply(4, ops)
    assert seal_of(after[-1]) == seal_of(undisturbed[-1])


async def test_a_worker_of_several_devices_holds_one_model(
    hub: MemoryHub, owner: Owner, settings: GpuWorkerSettings
) -> None:
    settings = settings.model_copy(update={"devices": 2})
    async with (
        serving(hub.client("worker"), settings),
        owner_of(hub.client("second"), ModelId("model_second")) as second,
    ):
        await owner.grant(LORA, epoch=1)
        await owner.until_held(1)
        await second.grant(LORA, epoch=1)
        assert "has no room for the model" in failed(await second.outcome(1, 0))


async def test_twins_and_disorder_change_nothing(
    hub: MemoryHub, owner: Owner, settings: GpuWorkerSettings, base_folder: Path, tmp_path: Path
) -> None:
    ops = [*some_ops(20), END]
    expected = uninterrupted(base_folder, tmp_path / "other", LORA, ops)
    numbered = list(enumerate(ops, 1))
    shuffled = random.Random(1).sample([*numbered, *numbered], 2 * len(ops))
    async with serving(hub.client("worker"), settings):
        await owner.open(LORA, epoch=1)
        for op in shuffled:
            await owner.send(1, [op])
        last = await owner.outcome(1, len(ops))
        await owner.send(1, numbered[:3])
        await owner.until(lambda: sum(r.number in (1, 2, 3) for r in owner.results) >= 6)
        await owner.grant(LORA, epoch=1)
        await owner.until(lambda: sum(r.number == 0 for r in owner.results) == 2)
    assert seal_of(last) == expected
    first_answers = list(dict.fromkeys(r.number for r in owner.results))
    assert first_answers == list(range(len(ops) + 1))
    for result in owner.results:
        assert result.outcome == owner.outcomes(1)[result.number]
    assert await hub.client("look").depth(train(MODEL, 1)) == 0


async def test_eight_models_at_once_equal_eight_alone(
    hub: MemoryHub, settings: GpuWorkerSettings, base_folder: Path, tmp_path: Path
) -> None:
    # AdamW with a small epsilon makes whole steps of what is nothing but rounding.
    update = forward_backward(random_batch(3, (9, 12, 7)), CrossEntropyLoss())
    window: list[OpBody] = [update, optim_step(eps=1.0)]
    ops = [*window * 3, PublishPolicy()]
    specs = [LORA.model_copy(update={"seed": seed}) for seed in range(8)]

    async def train_one(spec: ModelSpec) -> str:
        async with owner_of(hub.client(f"owner {spec.seed}"), ModelId(f"model_{spec.seed}")) as one:
            await one.open(spec, epoch=1)
            return policy_of((await one.apply(1, ops))[-1])

    async with serving(hub.client("worker"), settings), asyncio.TaskGroup() as tasks:
        training = [tasks.create_task(train_one(spec)) for spec in specs]
        found = [await task for task in training]
    for spec, url in zip(specs, found, strict=True):
        engine = opened(engine_for(base_folder, tmp_path / str(spec.seed)), spec)
        expected = fetch_policy(policy_of(apply_all(engine, ops)[-1])).tensors
        for name, tensor in fetch_policy(url).tensors.items():
            assert torch.allclose(tensor, expected[name], rtol=0, atol=1e-6), name


async def test_what_is_malformed_goes_to_the_dead_and_holds_nobody_up(
    hub: MemoryHub, owner: Owner, settings: GpuWorkerSettings
) -> None:
    broker = owner.broker
    async with serving(hub.client("worker"), settings):
        await owner.open(FULL, epoch=1)
        for queue in (trainer(WORKER), train(MODEL, 1)):
            await broker.declare(queue)
            await broker.publish(queue, b"nonsense", message_id=f"nonsense for {queue.name}")
        stray = Op(envelope=Envelope(), model=MODEL, epoch=7, number=1, body=optim_step())
        await owner.courier.send(train(MODEL, 1), stray)
        fine = await owner.apply(1, [forward_backward(random_batch(1)), optim_step()])
    assert done(fine[1]).version == 1
    letters = {letter.origin: letter.reason for letter in await broker.dead_letters()}
    assert letters.keys() == {trainer(WORKER).name, train(MODEL, 1).name}
    reasons = [letter.reason for letter in await broker.dead_letters()]
    assert sum("unreadable" in reason for reason in reasons) == 2
    assert sum("not of model" in reason for reason in reasons) == 1


async def test_a_newer_epoch_ends_the_older_and_an_ended_one_never_comes_back(
    hub: MemoryHub, owner: Owner, settings: GpuWorkerSettings
) -> None:
    window = [forward_backward(random_batch(1)), optim_step()]
    async with serving(hub.client("worker"), settings):
        await owner.open(LORA, epoch=1)
        await owner.apply(1, window)
        await owner.open(LORA, epoch=3)
        await owner.until_held(3)
        await owner.grant(LORA, epoch=2)
        await owner.send(1, enumerate(window, 3))
        outcomes = await owner.apply(3, window)
        assert done(outcomes[1]).version == 1
        await owner.close(epoch=2)
        await owner.apply(3, window, first=3)
        await owner.close(epoch=3)
        await owner.until_held()
        await owner.grant(LORA, epoch=3)
        await owner.open(LORA, epoch=4)
        await owner.until_held(4)
    assert owner.outcomes(2) == {}
    assert owner.outcomes(1).keys() == {0, 1, 2}
    assert await owner.broker.depth(train(MODEL, 1)) == 1


async def test_policies_are_announced_and_only_the_newest_are_kept(
    hub: MemoryHub, owner: Owner, settings: GpuWorkerSettings, base_folder: Path
) -> None:
    n_versions = KEEP_POLICIES + 3
    window = [forward_backward(random_batch(1, (3, 4))), optim_step(), PublishPolicy()]
    ops: list[OpBody] = [PublishPolicy(), *window * n_versions, PublishPolicy()]
    async with serving(hub.client("worker"), settings):
        await owner.open(LORA, epoch=1)
        outcomes = await owner.apply(1, ops)
        await owner.until(lambda: len(owner.policies) == n_versions + 2)
    published = [done(o).policy for o in outcomes if isinstance(o, OpDone) and o.policy]
    assert [p.policy for p in owner.policies] == published
    assert published[-1] == published[-2]
    newest = published[-1]
    assert newest is not None
    assert newest.version == n_versions
    assert newest.url.endswith(f"/{MODEL}/policies/v{n_versions}")
    assert fetch_policy(newest.url).kind == "lora"
    kept = sorted(int(folder.name[1:]) for folder in Path(newest.url).parent.iterdir())
    assert kept == list(range(n_versions - KEEP_POLICIES + 1, n_versions + 1))
    assert owner.policies[0].base_model == BASE


async def test_a_model_that_cannot_be_opened_is_answered_and_let_go(
    hub: MemoryHub, owner: Owner, settings: GpuWorkerSettings, tmp_path: Path
) -> None:
    async with serving(hub.client("worker"), settings):
        await owner.grant(LORA.model_copy(update={"base_model": "nobody/knows"}), epoch=1)
        assert "no base model nobody/knows" in failed(await owner.outcome(1, 0))
        await owner.until_held()
        await owner.grant(LORA, epoch=2, checkpoint_url=str(tmp_path / "nothing"), next_op=5)
        assert "is not there" in failed(await owner.outcome(2, 0))
        await owner.until_held()
        await owner.open(LORA, epoch=3)


async def test_heartbeats_tell_what_is_offered_and_held(
    hub: MemoryHub, owner: Owner, settings: GpuWorkerSettings
) -> None:
    async with serving(hub.client("worker"), settings):
        await owner.until(lambda: bool(owner.heartbeats))
        assert owner.heartbeats[0].offers == ()  # the child is still starting
        await owner.until(lambda: owner.heartbeats[-1].offers == (BASE,))
        await owner.open(FULL, epoch=1)
        await owner.until_held(1)
        await owner.apply(1, [forward_backward(random_batch(1)), optim_step()])
        kill_child()
        await owner.until_held()
    await owner.until(lambda: owner.heartbeats[-1].is_leaving)
    assert all(beat.role is WorkerRole.TRAINER for beat in owner.heartbeats)
    assert all(beat.worker == WORKER for beat in owner.heartbeats)
    assert await owner.broker.depth(trainer(WORKER)) is None


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
    assert owner.outcomes(1) == {}


async def test_stopping_in_the_middle_hands_back_what_was_not_answered(
    hub: MemoryHub, owner: Owner, settings: GpuWorkerSettings
) -> None:
    """Leaving takes less than 5 s (see `serving`), also with a gap and a long queue of ops."""
    large = forward_backward(random_batch(1, [400] * 40))
    async with serving(hub.client("worker"), settings):
        await owner.open(FULL, epoch=1)
        await owner.send(1, [(1, optim_step())])
        for number in (*range(2, 10), 50):
            await owner.send(1, [(number, large)])
        await owner.outcome(1, 1)
    n_answered = len(owner.outcomes(1)) - 1
    assert n_answered < 10
    n_left = await owner.broker.depth(train(MODEL, 1))
    assert n_left is not None
    assert 10 - n_answered <= n_left <= 10


async def test_a_child_that_hangs_is_killed(
    hub: MemoryHub, owner: Owner, settings: GpuWorkerSettings
) -> None:
    async with serving(hub.client("worker"), settings.model_copy(update={"hang_s": 5.0})):
        await owner.open(FULL, epoch=1)
        kill_child(signal.SIGSTOP)
        await owner.send(1, [(1, forward_backward(random_batch(1)))])
        await owner.until_held()
        await owner.open(FULL, epoch=2)
        await owner.apply(2, [forward_backward(random_batch(1)), optim_step()])


async def test_a_gap_that_does_not_close_ends_the_lease_with_a_word(
    hub: MemoryHub,
    owner: Owner,
    settings: GpuWorkerSettings,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(lease, "GAP_S", 0.2)
    window = [forward_backward(random_batch(1)), optim_step()]
    async with serving(hub.client("worker"), settings):
        await owner.open(LORA, epoch=1)
        await owner.send(1, [(2, optim_step())])
        await owner.until_held()
        assert "op 1 has not come within 0.2 s, although later ones have" in caplog.text
        await owner.open(LORA, epoch=2)
        assert done((await owner.apply(2, window))[1]).version == 1
    assert owner.outcomes(1).keys() == {0}


async def test_a_worker_without_room_declines_and_says_so(
    hub: MemoryHub, owner: Owner, settings: GpuWorkerSettings
) -> None:
    """A model that is trained in full has the worker to itself, either way round."""
    async with (
        serving(hub.client("worker"), settings),
        owner_of(hub.client("second"), ModelId("model_second")) as second,
    ):
        await owner.open(FULL, epoch=1)
        await second.grant(LORA, epoch=1)
        refusal = await second.outcome(1, 0)
        assert isinstance(refusal, OpFailed)
        assert refusal.elsewhere and "has no room for the model" in refusal.reason
        await owner.apply(1, [forward_backward(random_batch(1)), optim_step()])
        await owner.close(epoch=1)
        await owner.until_held()
        await second.open(LORA, epoch=2)
        await owner.grant(FULL, epoch=2)
        assert "has no room for the model" in failed(await owner.outcome(2, 0))


async def test_no_memory_fails_the_op_with_a_hint_and_nothing_else(
    hub: MemoryHub, owner: Owner, settings: GpuWorkerSettings
) -> None:
    """The child may take 24 MiB more; the op in the middle of the window needs ten times that."""
    fine, large = forward_backward(random_batch(1)), forward_backward(random_batch(2, [400] * 40))
    async with serving(hub.client("worker"), settings):
        await owner.open(FULL, epoch=1)
        await owner.apply(1, [fine, optim_step(), fine])
        unlimited = resource.prlimit(child_pid(), resource.RLIMIT_AS)
        limit = size_bytes(child_pid()) + 24 * 1024**2
        resource.prlimit(child_pid(), resource.RLIMIT_AS, (limit, unlimited[1]))
        outcomes = await owner.apply(1, [large, optim_step()], first=4)
        resource.prlimit(child_pid(), resource.RLIMIT_AS, unlimited)
        after = await owner.apply(1, [large, optim_step()], first=6)
    assert "out of memory; start the GPU worker with a smaller" in failed(outcomes[0])
    assert "op 4: out of memory" in failed(outcomes[1])
    assert done(after[1]).version == 2


@pytest.mark.timeout(300)
async def test_no_memory_on_one_rank_fails_the_op_when_it_comes_again(
    hub: MemoryHub, owner: Owner, settings: GpuWorkerSettings
) -> None:
    """The rank can't tell the other one in the middle of an op, so both end; the op does so once."""
    fine, large = forward_backward(random_batch(1)), forward_backward(random_batch(2, [400] * 80))
    ops = [fine, optim_step(), large, optim_step(), fine, optim_step()]
    settings = settings.model_copy(update={"devices": 2, "micro_batch_tokens": 32_768})
    async with serving(hub.client("worker"), settings):
        await owner.open(FULL, epoch=1)
        await owner.apply(1, ops[:2])
        limit = size_bytes(child_pid(rank=1)) + 24 * 1024**2
        resource.prlimit(child_pid(rank=1), resource.RLIMIT_AS, (limit, limit))
        await owner.send(1, [(3, large)])
        await owner.until_held()
        await owner.open(FULL, epoch=2)
        outcomes = await owner.apply(2, ops)
    assert 3 not in owner.outcomes(1)
    assert "out of memory; start the GPU worker with a smaller" in failed(outcomes[2])
    assert "op 3: out of memory" in failed(outcomes[3])
    assert done(outcomes[5]).version == 2


async def test_a_deleted_model_s_files_go(
    hub: MemoryHub, owner: Owner, settings: GpuWorkerSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    loop, n_done = asyncio.get_running_loop(), asyncio.Semaphore(0)

    def delete(url: str) -> None:
        delete_folder(url)
        loop.call_soon_threadsafe(n_done.release)

    monkeypatch.setattr(chores, "delete_folder", delete)
    folder = Path(settings.checkpoint_url) / MODEL
    async with serving(hub.client("worker"), settings):
        await owner.open(LORA, epoch=1)
        await owner.apply(1, [PublishPolicy(), END])
        assert {path.name for path in folder.iterdir()} == {"policies", "states"}
        await owner.close(epoch=1)
        await owner.until_held()
        for _ in range(2):  # orders come twice
            await owner.courier.send(CHORES, DeleteModel(envelope=Envelope(), model=MODEL))
        async with asyncio.timeout(PATIENCE_S):
            for _ in range(2):
                await n_done.acquire()
    assert not folder.exists()


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
