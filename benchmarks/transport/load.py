"""The load: so many episodes in flight, each asking for its next step as soon as it has the last."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path

WARMUP_S = 1.0
_TICKS_PER_S = 100

RoundTrip = Callable[[int, int], Awaitable[None]]
"""One step: the episode, its turn."""


@dataclass(frozen=True, slots=True)
class Figures:
    """What one load on one transport did."""

    n_in_flight: int
    steps_per_s: float
    p50_ms: float
    p99_ms: float
    cpu_us: dict[str, float]
    """CPU microseconds for each step, by process."""


@dataclass(slots=True)
class _Watch:
    """Counts round trips and CPU between `start` and `stop`."""

    pids: dict[str, int]
    latencies_s: list[float] = field(default_factory=list[float])
    started_s: float = 0.0
    cpu_s: dict[str, float] = field(default_factory=dict[str, float])

    def start(self) -> None:
        self.latencies_s.clear()
        self.started_s = time.perf_counter()
        self.cpu_s = {name: cpu_s(pid) for name, pid in self.pids.items()}

    def stop(self, n_in_flight: int) -> Figures:
        wall_s = time.perf_counter() - self.started_s
        n = len(self.latencies_s)
        ordered = sorted(self.latencies_s)
        spent = {name: cpu_s(pid) - self.cpu_s[name] for name, pid in self.pids.items()}
        return Figures(
            n_in_flight=n_in_flight,
            steps_per_s=n / wall_s,
            p50_ms=ordered[n // 2] * 1e3,
            p99_ms=ordered[n * 99 // 100] * 1e3,
            cpu_us={name: seconds / n * 1e6 for name, seconds in spent.items()},
        )


def cpu_s(pid: int) -> float:
    """User and system time of a process so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS_PER_S


async def measure(
    round_trip: RoundTrip, *, n_in_flight: int, seconds: float, pids: dict[str, int]
) -> Figures:
    """Run the load for `seconds` after a warm-up."""
    watch, is_over = _Watch(pids), asyncio.Event()

    async def episode(number: int) -> None:
        turn = 0
        while not is_over.is_set():
            turn += 1
            started_s = time.perf_counter()
            await round_trip(number, turn)
            watch.latencies_s.append(time.perf_counter() - started_s)

    async with asyncio.TaskGroup() as tasks:
        for number in range(n_in_flight):
            tasks.create_task(episode(number), name=f"episode {number}")
        await asyncio.sleep(WARMUP_S)
        watch.start()
        await asyncio.sleep(seconds)
        figures = watch.stop(n_in_flight)
        is_over.set()
    return figures
