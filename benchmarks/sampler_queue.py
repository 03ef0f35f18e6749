"""What queue, codec and child process cost the sampler: `python -m benchmarks.sampler_queue`.

    --engine transformers    the other engine
    --updates                tokens/s with a new version every second: keep, recompute and drain

Turns of a tiny model in a closed loop, N in flight: bare (the engine stepped in this process on the
same token ids) and through Warren (`Generate` messages on the in-process broker, supervisor, child
process, `Step` messages back), alternating in one run. Figures are sampled tokens per second of wall
time; the ratio is the median of the rounds' ratios. Two processes share the work through Warren, so a
machine with other work on it shows less than the truth.
"""

import argparse
import asyncio
import os
import statistics
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import cast

import numpy as np
from rich.console import Console
from rich.table import Table
from tests.support.engines import build_even_model, last_layer_weights, opened, settings_for
from tests.support.episodes import EnvironmentSide, environment_side, first_turn, policy, user

from warren_broker.memory import MemoryHub, open_hub
from warren_broker.topology import POLICIES
from warren_gpu_worker.base_models import load_base, load_tokenizer, resolve_base_models
from warren_gpu_worker.sampler.engine import Completion, Engine, PolicyKey, Request
from warren_gpu_worker.sampler.service import serve_sampler
from warren_gpu_worker.settings import EngineName, OnNewWeights
from warren_gpu_worker.weights import PolicyView, write_policy
from warren_schemas.config import Sampling
from warren_schemas.control import PolicyPublished
from warren_schemas.envelope import Envelope
from warren_schemas.episode import Generate, PolicyRef
from warren_schemas.training import Policy
from warren_schemas.wire import encode

BASE = "warren/tiny-lora"
"""The name under which the model is offered."""
IN_FLIGHT = (1, 16, 64)
SAMPLING = Sampling(max_tokens=64)
ROUNDS = 3
TURNS_PER_PLACE = 6
UPDATES_S = 10.0
UPDATE_EVERY_S = 1.0


def turns(of: PolicyRef, n: int) -> list[Generate]:
    rng = np.random.default_rng(0)
    digits = rng.integers(0, 10, (n, 24))
    return [first_turn(of, user("".join(map(str, row))), sampling=SAMPLING) for row in digits]


def bare_rate(engine: Engine, folder: str, n_in_flight: int) -> float:
    """Tokens per second of the engine alone."""
    tokenizer, key = load_tokenizer(folder), PolicyKey("model")
    engine.load(key, 0, None)
    contents = [t.transcript.messages[0].content for t in turns(policy(BASE), count(n_in_flight))]
    prompts = [
        np.array([2, *cast("list[int]", tokenizer(c, add_special_tokens=False)["input_ids"])])
        for c in contents
    ]
    waiting = [
        Request(time.monotonic_ns() + i, key, p.astype(np.int32), SAMPLING)
        for i, p in enumerate(prompts)
    ]
    n_tokens, started_s = 0, time.perf_counter()
    engine.submit([waiting.pop() for _ in range(n_in_flight)])
    while engine.has_work:
        for answer in engine.step():
            assert isinstance(answer, Completion)
            n_tokens += answer.ids_T.size
            if waiting:
                engine.submit([waiting.pop()])
    return n_tokens / (time.perf_counter() - started_s)


def count(n_in_flight: int) -> int:
    return TURNS_PER_PLACE * n_in_flight


async def queued_rate(
    side: EnvironmentSide, acting: PolicyRef, n_in_flight: int, until: Callable[[int], bool]
) -> float:
    """Tokens per second through the queue, until enough turns are done."""
    waiting = turns(acting, 100 * count(n_in_flight))
    n_tokens = n_done = 0
    started_s = time.perf_counter()
    await side.send([waiting.pop() for _ in range(n_in_flight)])
    n_open = n_in_flight
    while n_open:
        steps = await side.steps(1)
        n_done, n_open = n_done + len(steps), n_open - len(steps)
        n_tokens += sum(step.transcript.tokens.n_sampled for step in steps)
        if not until(n_done + n_open):
            await side.send([waiting.pop() for _ in steps])
            n_open += len(steps)
    return n_tokens / (time.perf_counter() - started_s)


@asynccontextmanager
async def sampler(
    name: EngineName, folder: str, on_new_weights: OnNewWeights
) -> AsyncGenerator[tuple[MemoryHub, EnvironmentSide]]:
    """A sampler at the far end of a queue, which has answered once."""
    settings = settings_for(
        name,
        folder,
        base_models={BASE: folder},
        roles=frozenset({"sampler"}),
        max_batch=64,
        max_batch_tokens=65_536,
        on_new_weights=on_new_weights,
    )
    with TemporaryDirectory() as broker_folder:
        async with open_hub(Path(broker_folder)) as hub, environment_side(hub) as side:
            broker = hub.client("sampler")
            task = asyncio.create_task(serve_sampler(broker, settings))
            try:
                await side.send(turns(policy(BASE), 1))
                await side.steps(1, timeout_s=600.0)
                yield hub, side
            finally:
                task.cancel()
                await asyncio.wait([task])
                await broker.close()


async def compare(name: EngineName, folder: str) -> Table:
    table = Table("in flight", "bare tokens/s", "through Warren", "ratio")
    with opened(name, folder, max_batch=64, max_batch_tokens=65_536) as engine:
        async with sampler(name, folder, "keep") as (_, side):
            for n in IN_FLIGHT:
                pairs: list[tuple[float, float]] = []
                for _ in range(ROUNDS):
                    bare = await asyncio.to_thread(bare_rate, engine, folder, n)
                    total = count(n)
                    ours = await queued_rate(side, policy(BASE), n, lambda k, t=total: k >= t)
                    pairs.append((bare, ours))
                ratio = statistics.median(ours / bare for bare, ours in pairs)
                bare, ours = (statistics.median(column) for column in zip(*pairs, strict=True))
                table.add_row(str(n), f"{bare:.0f}", f"{ours:.0f}", f"{ratio:.2f}")
    return table


async def compare_updates(name: EngineName, folder: str) -> Table:
    table = Table("on new weights", "tokens/s")
    base = load_base(folder)
    choices: tuple[OnNewWeights, ...] = ("keep", "recompute", "drain")
    with TemporaryDirectory() as store:
        urls = [(Path(store) / f"v{version}").as_uri() for version in range(1, 40)]
        for version, url in enumerate(urls, start=1):
            files = last_layer_weights(base, version)
            write_policy(PolicyView("full", files.tensors, base.config.to_json_string()), url)
        for choice in choices:
            async with sampler(name, folder, choice) as (hub, side):
                acting = policy(BASE, min_version=1, url=urls[0])
                updating = asyncio.create_task(update(hub, acting, urls))
                ends_s = time.monotonic() + UPDATES_S
                rate = await queued_rate(side, acting, 16, lambda _, t=ends_s: time.monotonic() > t)
                updating.cancel()
                with suppress(asyncio.CancelledError):
                    await updating
            table.add_row(choice, f"{rate:.0f}")
    return table


async def update(hub: MemoryHub, acting: PolicyRef, urls: list[str]) -> None:
    broker = hub.client("announcer")
    for version, url in enumerate(urls[1:], start=2):
        await asyncio.sleep(UPDATE_EVERY_S)
        newer = Policy(version=version, url=url, size_bytes=1)
        item = PolicyPublished(
            envelope=Envelope(), model=acting.model, base_model=BASE, policy=newer
        )
        await broker.publish(POLICIES, encode([item]), message_id=item.envelope.id)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--engine", choices=("vllm", "transformers"), default="vllm")
    parser.add_argument("--updates", action="store_true")
    arguments = parser.parse_args()
    parts = ("schemas", "broker", "gpu_worker")
    os.environ["PYTHONPATH"] = os.pathsep.join(parts)  # for the sampler's child
    with TemporaryDirectory() as folder:
        even = Path(folder) / "even"
        build_even_model(even, resolve_base_models([BASE], Path(folder))[BASE])
        run = compare_updates if arguments.updates else compare
        Console().print(asyncio.run(run(arguments.engine, str(even))))


if __name__ == "__main__":
    main()
