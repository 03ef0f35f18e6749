"""Ops through a worker: duplicates, disorder, many models, policies, files, dead letters."""

import asyncio
import logging
import random
from collections.abc import Generator
from pathlib import Path

import pytest
import torch
from tests.support.trainer import (
    BASE,
    FULL,
    LORA,
    MODEL,
    apply_all,
    done,
    engine_for,
    forward_backward,
    opened,
    optim_step,
    random_batch,
    seal_of,
    some_ops,
)
from tests.support.trainer_children import (
    END,
    policy_of,
    uninterrupted,
)
from tests.support.trainer_owner import PATIENCE_S, WORKER, Owner, owner_of, serving

from warren_broker.memory.hub import MemoryHub
from warren_broker.topology import FILE_CLEANUP, train, trainer
from warren_gpu_worker.settings import GpuWorkerSettings
from warren_gpu_worker.trainer.child.policy_publishing import KEEP_POLICIES
from warren_gpu_worker.trainer.supervisor import file_cleanup
from warren_gpu_worker.trainer.supervisor.file_cleanup import clean_up_files
from warren_gpu_worker.weights import fetch_policy
from warren_schemas.config import CrossEntropyLoss
from warren_schemas.envelope import Envelope
from warren_schemas.ids import ModelId
from warren_schemas.training import (
    DeleteModel,
    ModelSpec,
    Op,
    OpBody,
    OpDone,
    PublishPolicy,
)


async def test_twins_and_disorder_change_nothing(
    hub: MemoryHub,
    owner: Owner,
    settings: GpuWorkerSettings,
    base_folder: Path,
    tmp_path: Path,
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
    hub: MemoryHub,
    settings: GpuWorkerSettings,
    base_folder: Path,
    tmp_path: Path,
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

    async with (
        serving(hub.client("worker"), settings),
        asyncio.TaskGroup() as tasks,
    ):
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
        await owner.batch_publisher.send(train(MODEL, 1), stray)
        fine = await owner.apply(1, [forward_backward(random_batch(1)), optim_step()])
    assert done(fine[1]).version == 1
    letters = {letter.origin: letter.reason for letter in await broker.dead_letters()}
    assert letters.keys() == {trainer(WORKER).name, train(MODEL, 1).name}
    reasons = [letter.reason for letter in await broker.dead_letters()]
    assert sum("unreadable" in reason for reason in reasons) == 2
    assert sum("not of model" in reason for reason in reasons) == 1


async def test_policies_are_announced_and_only_the_newest_are_kept(
    hub: MemoryHub,
    owner: Owner,
    settings: GpuWorkerSettings,
    base_folder: Path,
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


class _Deletions(logging.Handler):
    def __init__(self) -> None:
        super().__init__(logging.INFO)
        self.n_done = asyncio.Semaphore(0)

    def emit(self, record: logging.LogRecord) -> None:
        if record.getMessage().endswith("are deleted"):
            self.n_done.release()


@pytest.fixture
def deletions(caplog: pytest.LogCaptureFixture) -> Generator[asyncio.Semaphore]:
    """Released when the files of a model are deleted."""
    caplog.set_level(logging.INFO, file_cleanup.__name__)
    handler, log = _Deletions(), logging.getLogger(file_cleanup.__name__)
    log.addHandler(handler)
    yield handler.n_done
    log.removeHandler(handler)


async def test_a_deleted_model_s_files_go(
    hub: MemoryHub,
    owner: Owner,
    settings: GpuWorkerSettings,
    deletions: asyncio.Semaphore,
) -> None:
    folder = Path(settings.checkpoint_url) / MODEL
    async with serving(hub.client("worker"), settings):
        await owner.open(LORA, epoch=1)
        await owner.apply(1, [PublishPolicy(), END])
        assert {path.name for path in folder.iterdir()} == {"policies", "states"}
        await owner.close(epoch=1)
        await owner.until_held()
        for _ in range(2):  # orders come twice
            await owner.batch_publisher.send(
                FILE_CLEANUP, DeleteModel(envelope=Envelope(), model=MODEL)
            )
        async with asyncio.timeout(PATIENCE_S):
            for _ in range(2):
                await deletions.acquire()
    assert not folder.exists()


async def test_files_that_cannot_be_deleted_now_are_tried_again(
    hub: MemoryHub, owner: Owner, tmp_path: Path, deletions: asyncio.Semaphore
) -> None:
    tries: list[str] = []

    def delete(url: str) -> None:
        tries.append(url)
        if len(tries) == 1:
            raise RuntimeError("a store has errors of its own")

    cleaning = clean_up_files(hub.client("worker"), str(tmp_path), retry_s=0.1, delete=delete)
    task = asyncio.create_task(cleaning)
    await owner.broker.declare(FILE_CLEANUP)
    await owner.batch_publisher.send(FILE_CLEANUP, DeleteModel(envelope=Envelope(), model=MODEL))
    await asyncio.wait_for(deletions.acquire(), PATIENCE_S)
    task.cancel()
    await asyncio.wait([task])
    assert tries == [str(tmp_path / MODEL)] * 2
