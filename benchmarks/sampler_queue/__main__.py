"""What queue and gateway cost the sampler: `python -m benchmarks.sampler_queue`.

    --engine transformers    the other engine
    --rounds N               more of them (3)
    --updates                tokens/s with a new version every second: keep, recompute and drain
    --width N                of the model (256: 2 million parameters; 64: 90,000)
    --affinity               turns/s of long episodes at two samplers: at any, or back at the same

The same turns of a small model by the ways of `ways`, one after the other in each round of one run.
Rates are sampled tokens per second of wall time; ratios are medians of the rounds' ratios. Samplers
answer in whole turns, so the time to the first token is that of turns of one token, one at a time.
Two processes share the work by queue and gateway, so a machine with other work on it shows less
than the truth.
"""

import argparse
import asyncio
import os
import statistics
import time
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.sampler_queue.affinity import compare_affinity
from benchmarks.sampler_queue.place import BASE, LIMITS, opened_place
from benchmarks.sampler_queue.updates import compare_updates
from benchmarks.sampler_queue.ways import Way, bare, by_gateway, by_queue
from rich.console import Console, Group
from rich.table import Table
from tests.support.engines import build_even_model, opened

from warren_gpu_worker.base_models import resolve_base_models
from warren_gpu_worker.settings import EngineName
from warren_schemas.config import Sampling

IN_FLIGHT = (1, 16, 64)
TURNS_PER_PLACE = 12
"""So many that the ends, when places stand empty, weigh little."""
LONG, ONE = Sampling(max_tokens=64), Sampling(max_tokens=1)
N_FIRST = 10
"""Turns of one token in each round."""
PROGRESS = Console(stderr=True)


async def compare(name: EngineName, folder: str, n_rounds: int) -> Group:
    with opened(name, folder, None, **LIMITS) as engine:
        async with opened_place(name, folder) as place:
            ways = {
                "bare": bare(engine, folder),
                "queue": by_queue(place),
                "gateway": by_gateway(place, folder),
            }
            for way in ways.values():
                await way(16, 16, ONE)  # warm
            rates = Table("in flight", *(f"{way} tokens/s" for way in ways), *_ratios("bare", ways))
            for n in IN_FLIGHT:
                rates.add_row(str(n), *await _rates(ways, n, n_rounds))
            first = Table("first token", *(f"{way} ms" for way in ways), *_added(ways))
            first.add_row("median", *await _first_tokens(ways, n_rounds))
    return Group(rates, first)


def _ratios(to: str, ways: dict[str, Way]) -> list[str]:
    return [f"{way} : {to}" for way in ways if way != to]


def _added(ways: dict[str, Way]) -> list[str]:
    return [f"{way} adds ms" for way in ways if way != "bare"]


async def _rates(ways: dict[str, Way], n_in_flight: int, n_rounds: int) -> list[str]:
    rounds = [await _round(ways, n_in_flight, first=number) for number in range(n_rounds)]
    rates = [f"{statistics.median(column):.0f}" for column in zip(*rounds, strict=True)]
    ratios = zip(*([rate / row[0] for rate in row[1:]] for row in rounds), strict=True)
    return [*rates, *(f"{statistics.median(column):.2f}" for column in ratios)]


async def _round(ways: dict[str, Way], n_in_flight: int, first: int) -> list[float]:
    """The rate of each way; another one begins each round, as a machine's speed drifts."""
    names = list(ways)
    turn = first % len(names)
    rates = {n: await _rate(ways[n], n_in_flight) for n in [*names[turn:], *names[:turn]]}
    return [rates[name] for name in names]


async def _rate(way: Way, n_in_flight: int) -> float:
    """Tokens per second."""
    started_s = time.perf_counter()
    n_tokens = await way(TURNS_PER_PLACE * n_in_flight, n_in_flight, LONG)
    rate = n_tokens / (time.perf_counter() - started_s)
    PROGRESS.print(f"{n_in_flight} in flight: {n_tokens} tokens, {rate:.0f}/s")
    return rate


async def _first_tokens(ways: dict[str, Way], n_rounds: int) -> list[str]:
    rounds = [[await _first_token_ms(way) for way in ways.values()] for _ in range(n_rounds)]
    alone, *others = [statistics.median(column) for column in zip(*rounds, strict=True)]
    times = [f"{ms:.1f}" for ms in (alone, *others)]
    return [*times, *(f"{ms - alone:.1f}" for ms in others)]


async def _first_token_ms(way: Way) -> float:
    started_s = time.perf_counter()
    await way(N_FIRST, 1, ONE)
    return (time.perf_counter() - started_s) / N_FIRST * 1000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--engine", choices=("vllm", "transformers"), default="vllm")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--updates", action="store_true")
    parser.add_argument("--width", type=int, default=256)
    parser.add_argument("--affinity", action="store_true")
    arguments = parser.parse_args()
    parts = ("schemas", "broker", "gpu_worker")
    os.environ["PYTHONPATH"] = os.pathsep.join(parts)  # for the sampler's child
    with TemporaryDirectory() as folder:
        even = Path(folder) / "even"
        like = resolve_base_models([BASE], Path(folder))[BASE]
        build_even_model(even, like, width=arguments.width, n_layers=max(2, arguments.width // 64))
        if arguments.updates:
            running = compare_updates(arguments.engine, str(even))
        elif arguments.affinity:
            running = compare_affinity(arguments.engine, arguments.rounds)
        else:
            running = compare(arguments.engine, str(even), arguments.rounds)
        Console(width=140).print(asyncio.run(running))


if __name__ == "__main__":
    main()
