"""Tokens per second with a new version every second: turns keep, recompute or drain."""

import asyncio
import time
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import get_args

from benchmarks.sampler_queue.place import BASE, Place, opened_place, turns
from rich.table import Table
from tests.support.engines import last_layer_weights
from tests.support.episodes import policy

from warren_broker.topology import POLICIES
from warren_gpu_worker.base_models import load_base
from warren_gpu_worker.settings import EngineName, OnNewWeights
from warren_gpu_worker.weights import PolicyView, write_policy
from warren_schemas.codec.wire import encode
from warren_schemas.config import Sampling
from warren_schemas.control import PolicyPublished
from warren_schemas.envelope import Envelope
from warren_schemas.episode import PolicyRef
from warren_schemas.training import Policy

IN_FLIGHT = 16
FOR_S = 15.0
EVERY_S = 1.0
ROUNDS = 2
_N_VERSIONS = 40
_SAMPLING = Sampling(max_tokens=256)


async def compare_updates(name: EngineName, folder: str) -> Table:
    choices: tuple[OnNewWeights, ...] = get_args(OnNewWeights)
    table = Table("on new weights", "tokens/s, each round", "versions loaded")
    with TemporaryDirectory() as store:
        urls = _publish_all(folder, Path(store))
        for choice in choices:
            async with opened_place(name, folder, choice) as place:
                told = [await _rate(place, urls) for _ in range(ROUNDS)]
            rates = ", ".join(f"{rate:.0f}" for rate, _ in told)
            table.add_row(choice, rates, ", ".join(str(n) for _, n in told))
    return table


def _publish_all(folder: str, store: Path) -> list[str]:
    base = load_base(folder)
    urls = [(store / f"v{version}").as_uri() for version in range(1, _N_VERSIONS)]
    for version, url in enumerate(urls, start=1):
        files = last_layer_weights(base, version)
        write_policy(PolicyView("full", files.tensors, base.config.to_json_string()), url)
    return urls


async def _rate(place: Place, urls: list[str]) -> tuple[float, int]:
    """Tokens per second under updates, and how many versions made them."""
    acting = policy(BASE, min_version=1, url=urls[0])
    updating = asyncio.create_task(_update(place, acting, urls))
    n_tokens, n_open, versions = 0, IN_FLIGHT, set[int]()
    started_s = time.perf_counter()
    await place.side.send(turns(acting, IN_FLIGHT, _SAMPLING))
    while n_open:
        steps = await place.side.steps(1)
        n_open -= len(steps)
        for step in steps:
            n_tokens += step.transcript.tokens.n_sampled
            versions |= set(step.transcript.tokens.versions_T.tolist())
        if time.perf_counter() - started_s < FOR_S:
            await place.side.send(turns(acting, len(steps), _SAMPLING))
            n_open += len(steps)
    rate = n_tokens / (time.perf_counter() - started_s)
    updating.cancel()
    with suppress(asyncio.CancelledError):
        await updating
    return rate, len(versions - {-1})


async def _update(place: Place, acting: PolicyRef, urls: list[str]) -> None:
    broker = place.hub.client("announcer")
    for version, url in enumerate(urls[1:], start=2):
        await asyncio.sleep(EVERY_S)
        newer = Policy(version=version, url=url, size_bytes=1)
        item = PolicyPublished(
            envelope=Envelope(), model=acting.model, base_model=BASE, policy=newer
        )
        await broker.publish(POLICIES, encode([item]), message_id=item.envelope.id)
