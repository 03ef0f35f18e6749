"""A machine that joins the worker of another one starts its processes again and again, and ever less often."""

import asyncio

from warren_broker.worker.child import ChildDied
from warren_gpu_worker.machines.joining import stay_joined

N_LIVES = 8


class EndsAtOnce:
    """What a machine that is refused runs."""

    async def receive(self) -> bytes:
        raise ChildDied("a part of the sampler", 1)

    def kill(self) -> None:
        pass

    async def close(self) -> None:
        pass


async def start() -> EndsAtOnce:
    return EndsAtOnce()


async def test_the_pauses_between_short_lives_grow_up_to_a_bound() -> None:
    paused: list[float] = []
    all_paused = asyncio.Event()

    async def pause(for_s: float) -> None:
        paused.append(for_s)
        if len(paused) == N_LIVES:
            all_paused.set()
            await asyncio.Event().wait()

    joined = asyncio.create_task(stay_joined(start, pause=pause))
    await all_paused.wait()
    joined.cancel()
    await asyncio.wait([joined])
    growing = paused[:5]
    assert growing == sorted(growing)
    assert paused[0] < 2.0 < max(paused) < 60.0
