"""Several owners, who together always have more jobs than the trainers have room for.

Invariant: what an owner submitted is known here, whatever breaks on the way: a submission is repeated
under the same idempotency key until it is answered, so it makes one run.
"""

import asyncio
import random
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field

from tests.chaos.gpu_worker import BASE_MODEL
from tests.chaos.site import Site

import warren
from warren import Client, Run

OWNERS = ("ann", "bob", "carla")
BACKLOG = 4
"""Runs of each owner that are not over, at least: of three owners twice as many as there is room for."""
RETRY_S = 300.0
FULL_SHARE = 0.15
STEPS = (3, 12)


@dataclass
class Owner:
    name: str
    client: Client
    rng: random.Random
    runs: list[Run] = field(default_factory=list[Run])

    async def keep_submitting(self, stop: asyncio.Event) -> None:
        """As many as keep the backlog up, until told to stop. Raises what became of a run that failed."""
        stopping = asyncio.create_task(stop.wait(), name=f"{self.name} stops")
        going: set[asyncio.Task[object]] = set()
        while not stop.is_set():
            while len(going) < BACKLOG:
                run = await self._submit()
                going.add(asyncio.create_task(_end_of(run), name=f"end of {run.id}"))
            waited = {stopping, *going}
            over, _ = await asyncio.wait(waited, return_when=asyncio.FIRST_COMPLETED)
            for task in over:
                await task
            going -= over
        await asyncio.gather(*going)

    async def _submit(self) -> Run:
        run = await self.client.train(short_job(f"{self.name}-{len(self.runs)}", self.rng))
        self.runs.append(run)
        return run


async def _end_of(run: Run) -> object:
    return await run.result()


def short_job(name: str, rng: random.Random) -> dict[str, object]:
    """A few steps; about one in seven trains all weights, and so needs a worker to itself."""
    is_full = rng.random() < FULL_SHARE
    model: dict[str, object] = {"base": BASE_MODEL}
    return {
        "name": name,
        "model": {**model, "update": {"kind": "full"}} if is_full else model,
        "environments": [{"name": "walk", "config": {"n_turns": 2, "step_s": 0.2}}],
        "algorithm": {"group_size": 4, "groups_per_step": 2, "max_staleness": 2},
        "limits": {"steps": rng.randint(*STEPS), "episode_s": 45, "episode_attempts": 20},
        "checkpoint": {"every_steps": 4},
    }


@asynccontextmanager
async def owners(site: Site, seed: int) -> AsyncGenerator[list[Owner]]:
    """Each with a key of their own, made before anything breaks."""
    async with AsyncExitStack() as stack:
        made: list[Owner] = []
        async with site.client() as admin:
            keys = [(await admin.access.add_user(name)).first_key.key for name in OWNERS]
        for name, key in zip(OWNERS, keys, strict=True):
            client = warren.connect(site.url, api_key=key, retry_s=RETRY_S)
            await stack.enter_async_context(client)
            made.append(Owner(name, client, random.Random(f"{seed} {name}")))
        yield made
