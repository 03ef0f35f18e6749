"""A thousand episodes on one machine's hosts, with every hostile environment among them.

`python -m benchmarks.host` plays healthy episodes alone, then as many again while hostile ones crash,
hang, leak, flood and lie beside them. It prints how long a healthy episode's calls took in both, and
the hosts' processes and memory before and after.
"""

import asyncio
import random
import statistics
import time
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager

from rich.console import Console
from rich.table import Table
from tests.support.crowd import below, resident_mib
from tests.support.hosting import Player, child_pids
from tests.support.interacting import spec

from warren_env_worker.host.host import Host
from warren_env_worker.host.protocol import Answer, Observed
from warren_schemas.episode import EpisodeSpec

TROUBLE = "warren_env_worker.environments.faulty"
HOSTILE = ("Crash", "Hang", "Leak", "Flood", "Nondeterministic")
N_HEALTHY, N_HOSTILE = 900, 100
N_AT_ONCE, N_HOSTILE_AT_ONCE = 16, 4
N_TURNS = 4
SETTLE_S = 60.0


class Ward:
    """The hosts, and what was seen of their episodes."""

    def __init__(self, healthy: Host, hostile: list[Host]) -> None:
        self.healthy, self.hostile = healthy, hostile
        self.resets_s: list[float] = []
        self.steps_s: list[float] = []
        self.fates: Counter[str] = Counter()

    async def play_healthy(self) -> None:
        player = Player(self.healthy, _spec(0.0, 0))
        answer = await _timed(player.reset(), self.resets_s)
        while isinstance(answer, Observed) and not answer.is_over:
            answer = await _timed(player.step("a"), self.steps_s)
        self.healthy.close(player.slot)
        if not isinstance(answer, Observed):
            raise SystemExit(f"a healthy episode failed: {answer.reason}")

    async def play_hostile(self, rng: random.Random) -> None:
        host = rng.choice(self.hostile)
        player = Player(host, _spec(0.7, rng.randrange(10**9)))
        answer: Answer = await player.reset()
        while isinstance(answer, Observed) and not answer.is_over:
            answer = await player.step("a")
        host.close(player.slot)
        self.fates["ended well" if isinstance(answer, Observed) else answer.kind.value] += 1

    async def play(self, n_healthy: int, n_hostile: int) -> None:
        rng = random.Random(0)
        async with asyncio.TaskGroup() as group:
            slots = asyncio.Semaphore(N_AT_ONCE), asyncio.Semaphore(N_HOSTILE_AT_ONCE)
            for _ in range(n_healthy):
                group.create_task(_in_turn(slots[0], self.play_healthy))
            for _ in range(n_hostile):
                group.create_task(_in_turn(slots[1], lambda: self.play_hostile(rng)))

    def clear(self) -> None:
        self.resets_s.clear()
        self.steps_s.clear()


async def main() -> None:
    shown = Table("run", "reset p50 ms", "reset p99 ms", "step p50 ms", "step p99 ms", "wall s")
    async with _hosts() as ward:
        await ward.play(N_AT_ONCE, 0)
        await _settled()
        before = len(below()), resident_mib(child_pids())
        for name, n_hostile in (("healthy alone", 0), ("with hostile ones", N_HOSTILE)):
            ward.clear()
            began = time.perf_counter()
            await ward.play(N_HEALTHY, n_hostile)
            wall_s = time.perf_counter() - began
            figures = [_ms(took, q) for took in (ward.resets_s, ward.steps_s) for q in (50, 99)]
            shown.add_row(name, *figures, f"{wall_s:.1f}")
        await _settled()
        after = len(below()), resident_mib(child_pids())
    Console(width=110).print(shown)
    print(f"{N_HEALTHY} healthy episodes of {N_TURNS} turns ended well in either run")
    print(f"hostile episodes: {dict(ward.fates)}")
    print(f"processes before {before[0]}, after {after[0]}")
    print(f"memory before {before[1]:.0f} MiB, after {after[1]:.0f} MiB")


@asynccontextmanager
async def _hosts() -> AsyncGenerator[Ward]:
    hosts = [Host(f"{TROUBLE}:{name}") for name in ("Sleep", *HOSTILE)]
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(host.run(), name="host") for host in hosts]
        for host in hosts:
            await host.start()
        yield Ward(hosts[0], hosts[1:])
        for task in tasks:
            task.cancel()


async def _settled() -> None:
    """Until no more are left than the hosts, and processes that wait for their next episode."""
    n_kept = N_AT_ONCE + N_HOSTILE_AT_ONCE
    async with asyncio.timeout(SETTLE_S):
        while len(below()) > 1 + len(HOSTILE) + n_kept:  # noqa: ASYNC110 - the kernel tells only parents
            await asyncio.sleep(0.05)


async def _in_turn(slots: asyncio.Semaphore, play: Callable[[], Awaitable[None]]) -> None:
    async with slots:
        await play()


async def _timed(answer: Awaitable[Answer], took_s: list[float]) -> Answer:
    began = time.perf_counter()
    result = await answer
    took_s.append(time.perf_counter() - began)
    return result


def _spec(rate: float, seed: int) -> EpisodeSpec:
    return spec("trouble", seed=seed, environment_config={"turns": N_TURNS, "rate": rate})


def _ms(took_s: list[float], percent: int) -> str:
    return f"{1000 * statistics.quantiles(took_s, n=100)[percent - 1]:.1f}"


if __name__ == "__main__":
    asyncio.run(main())
