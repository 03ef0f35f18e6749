"""Steps over a broker: a sampler's end and an env worker's end, as in a run.

Both ends publish the successor, confirmed, before the message it came from is acked.
"""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass

from benchmarks.transport.items import answer_to, numbered
from benchmarks.transport.load import RoundTrip

from warren_broker.batch_publisher import BatchPublisher
from warren_broker.inbox import Claim, receive
from warren_broker.port import Broker
from warren_broker.topology import Home, WorkQueue
from warren_schemas.episode import Generate, Step

PREFETCH = 64


@dataclass(frozen=True, slots=True)
class Route:
    """Where steps go and answers come from; each run has its own, so it finds no old messages."""

    steps: Home
    answers: WorkQueue

    @classmethod
    def of(cls, run: str) -> "Route":
        interact = WorkQueue(f"benchmark.{run}.interact")
        return cls(
            steps=Home(f"benchmark.{run}.home", fallback=interact),
            answers=WorkQueue(f"benchmark.{run}.generate"),
        )


async def play_env_worker(broker: Broker, route: Route, ready: asyncio.Event) -> None:
    """Answer every step by the next turn, for ever."""
    batch_publisher = BatchPublisher(broker)

    async def answer(claims: Sequence[Claim[Step]]) -> None:
        await batch_publisher.send_all(route.answers, [answer_to(claim.item) for claim in claims])
        for claim in claims:
            claim.done()

    await broker.declare(route.answers)
    async with (
        receive(broker, route.steps, Step, prefetch=PREFETCH) as inbox,
        asyncio.TaskGroup() as tasks,
    ):
        ready.set()
        async for claims in inbox:
            tasks.create_task(answer(claims))


@asynccontextmanager
async def sampler(broker: Broker, route: Route) -> AsyncGenerator[RoundTrip]:
    """The end that the load is measured at."""
    batch_publisher = BatchPublisher(broker)
    waiting: dict[str, asyncio.Future[Claim[Generate]]] = {}
    held: dict[int, Claim[Generate]] = {}

    async def take_answers() -> None:
        async for claims in inbox:
            for claim in claims:
                waiting.pop(claim.item.envelope.episode or "").set_result(claim)

    async def round_trip(episode: int, turn: int) -> None:
        answer: asyncio.Future[Claim[Generate]] = asyncio.get_running_loop().create_future()
        waiting[str(episode)] = answer
        await batch_publisher.send(route.steps, numbered(episode, turn))
        if episode in held:
            held.pop(episode).done()
        held[episode] = await answer

    async with (
        receive(broker, route.answers, Generate, prefetch=PREFETCH) as inbox,
        asyncio.TaskGroup() as tasks,
    ):
        taking = tasks.create_task(take_answers(), name="answers")
        yield round_trip
        taking.cancel()
