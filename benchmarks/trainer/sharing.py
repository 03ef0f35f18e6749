"""Models that share a worker: `python -m benchmarks.trainer.sharing`.

Through a real trainer: its queues (in-process broker), its supervisor, its child process.
"""

import asyncio
import statistics
import time
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from rich.console import Console
from rich.table import Table
from tests.support.trainer import random_batch
from tests.support.trainer_owner import Owner, owner_of, serving

from warren_broker.memory import open_hub
from warren_broker.topology import trainer
from warren_gpu_worker.base_models.tiny import ensure_tiny
from warren_gpu_worker.settings import GpuWorkerSettings
from warren_schemas.config import CrossEntropyLoss, LoraUpdate
from warren_schemas.envelope import Envelope
from warren_schemas.ids import ModelId
from warren_schemas.training import ForwardBackward, ModelSpec, OpBody, OpenModel, OptimStep

BASE = "warren/tiny-lora"
N_MODELS, N_STEPS, ROUNDS = 8, 10, 3
SIZES = ((8, 32), (16, 64))
"""(rows, tokens of each) in one step of one model."""

Side = tuple[list[Owner], list[OpBody]]
"""Who trains, and a step of each."""


def a_step(n_rows: int, n_tokens: int) -> list[OpBody]:
    batch = random_batch(1, [n_tokens] * n_rows)
    batch = batch.model_copy(update={"mask_N": np.ones(n_rows * n_tokens, np.uint8)})
    return [
        ForwardBackward(loss=CrossEntropyLoss(), batch=batch),
        OptimStep(learning_rate=1e-5, clip_norm=1.0),
    ]


@asynccontextmanager
async def opened(
    folder: Path, *, users: dict[str, str], deterministic: bool = False
) -> AsyncGenerator[list[Owner]]:
    """A trainer that holds a LoRA model for each name; who its user is stands beside it."""
    settings = GpuWorkerSettings(
        base_models={BASE: str(ensure_tiny(BASE, folder))},
        checkpoint_url=str(folder / "checkpoints"),
        device="cpu",
    )
    update = LoraUpdate(rank=8, alpha=16.0)
    spec = ModelSpec(base_model=BASE, update=update, deterministic=deterministic)
    async with AsyncExitStack() as stack:
        hub = await stack.enter_async_context(open_hub())
        await stack.enter_async_context(serving(hub.client("worker"), settings))
        owners: list[Owner] = []
        for name, user in users.items():
            owner = await stack.enter_async_context(owner_of(hub.client(name), ModelId(name)))
            order = OpenModel(
                envelope=Envelope(), model=owner.model, epoch=1, spec=spec, owner=user
            )
            await owner.batch_publisher.send(trainer(owner.worker), order)
            await owner.outcome(1, 0)
            owners.append(owner)
        yield owners


async def train(owner: Owner, step: list[OpBody], *, first: int, n_steps: int) -> None:
    """All ops at once, and all their answers."""
    for outcome in await owner.apply(1, step * n_steps, first=first):
        assert outcome.status == "done", outcome


@asynccontextmanager
async def sides(folder: Path, n_rows: int, n_tokens: int) -> AsyncGenerator[list[Side]]:
    """One model with all the rows, 8 that may share batches, and 8 that may not."""
    step, large = a_step(n_rows, n_tokens), a_step(N_MODELS * n_rows, n_tokens)
    users = {f"model_{n}": f"user_{n}" for n in range(N_MODELS)}
    async with (
        opened(folder, users={"model_0": "user_0"}) as alone,
        opened(folder, users=users) as together,
        opened(folder, users=users, deterministic=True) as apart,
    ):
        yield [(alone, large), (together, step), (apart, step)]


async def seconds(side: Side, *, first: int) -> float:
    """For `N_STEPS` steps of every model."""
    owners, step = side
    started_s = time.perf_counter()
    training = (train(owner, step, first=first, n_steps=N_STEPS) for owner in owners)
    await asyncio.gather(*training)
    return time.perf_counter() - started_s


async def measure_sharing(folder: Path) -> Table:
    """The best of some rounds in which every side has its turn."""
    shown = Table("a step of each model", "one model, all tokens", "8 at once", "8 apart")
    for n_rows, n_tokens in SIZES:
        async with sides(folder, n_rows, n_tokens) as opened_sides:
            rounds = [
                [await seconds(side, first=1 + 2 * N_STEPS * n) for side in opened_sides]
                for n in range(ROUNDS)
            ]
        alone_s, *others = (min(taken) for taken in zip(*rounds, strict=True))
        shown.add_row(
            f"{n_rows} x {n_tokens} tokens",
            f"{alone_s / N_STEPS * 1e3:.1f} ms",
            *(f"{s / N_STEPS * 1e3:.1f} ms ({s / alone_s:.2f})" for s in others),
        )
    return shown


async def latency_ms(owner: Owner, step: list[OpBody], *, first: int, n: int) -> float:
    """Median from sending a forward_backward to its answer, one after the other."""
    found: list[float] = []
    for number in range(first, first + n):
        started_s = time.perf_counter()
        await owner.apply(1, step[:1], first=number)
        found.append(time.perf_counter() - started_s)
    return statistics.median(found) * 1e3


async def measure_shares(folder: Path, *, deterministic: bool) -> tuple[float, float, float]:
    """A modest user's latency alone, and beside a greedy one; and the greedy one's whole queue, in
    ms of work."""
    users = {"model_modest": "modest", **{f"model_{n}": "greedy" for n in range(7)}}
    step, n_greedy = a_step(8, 32), 40
    async with opened(folder, users=users, deterministic=deterministic) as (modest, *greedy):
        alone_ms = await latency_ms(modest, step, first=1, n=30)
        started_s = time.perf_counter()
        flood = [
            asyncio.create_task(train(owner, step, first=1, n_steps=n_greedy)) for owner in greedy
        ]
        await greedy[0].outcome(1, 1)
        beside_ms = await latency_ms(modest, step, first=31, n=10)
        assert not all(task.done() for task in flood)
        await asyncio.gather(*flood)
        return alone_ms, beside_ms, (time.perf_counter() - started_s) * 1e3


def main() -> None:
    with TemporaryDirectory() as name:
        folder, console = Path(name), Console(width=120)
        console.print(asyncio.run(measure_sharing(folder)))
        shown = Table("greedy user: 7 models, 560 ops", "alone", "beside", "ratio", "whole queue")
        for words, apart in (("batches shared", False), ("deterministic", True)):
            alone, beside_ms, queue = asyncio.run(measure_shares(folder, deterministic=apart))
            ratio = f"{beside_ms / alone:.1f}"
            shown.add_row(words, f"{alone:.1f} ms", f"{beside_ms:.1f} ms", ratio, f"{queue:.0f} ms")
        console.print(shown)


if __name__ == "__main__":
    main()
