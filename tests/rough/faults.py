"""Faults as anybody could make them from outside: kill, freeze, restart. No process knows of the test."""

import asyncio
import os
import random
import signal
from collections import Counter

from tests.support.deployment import Site
from tests.support.private_rabbit import PrivateRabbit
from tests.support.processes import children, kill_and_wait

WORKERS = ("gpu", "env-1", "env-2")
FREEZE_S = 4.0


class Faults:
    """Invariant: when `one` returns, what it broke is started again."""

    def __init__(self, site: Site, rabbit: PrivateRabbit, rng: random.Random) -> None:
        self.done: Counter[str] = Counter()
        self._site = site
        self._rabbit = rabbit
        self._rng = rng

    async def one(self) -> None:
        kinds = (self.kill_gateway, *(self.kill_worker,) * 2, *(self.kill_child,) * 3, self.freeze)
        await self._rng.choice((*kinds, self.freeze_broker))()

    async def kill_gateway(self) -> None:
        await self._site.kill("gateway")
        await self._site.start_gateway()
        self.done["gateway killed"] += 1

    async def kill_worker(self) -> None:
        name = self._rng.choice(WORKERS)
        await self._site.kill(name)
        self._site.start(name, *self._site.commands[name])
        self.done["worker killed"] += 1

    async def kill_child(self) -> None:
        worker = self._site.processes[self._rng.choice(WORKERS)]
        victims = children(worker.pid) if worker.poll() is None else []
        if victims:
            await asyncio.to_thread(kill_and_wait, [self._rng.choice(victims)])
        self.done["child killed"] += 1

    async def freeze(self) -> None:
        worker = self._site.processes[self._rng.choice((*WORKERS, "gateway"))]
        os.kill(worker.pid, signal.SIGSTOP)
        try:
            await asyncio.sleep(FREEZE_S)
        finally:
            os.kill(worker.pid, signal.SIGCONT)
        self.done["process frozen"] += 1

    async def freeze_broker(self) -> None:
        self._rabbit.pause()
        try:
            await asyncio.sleep(FREEZE_S)
        finally:
            self._rabbit.resume()
        self.done["broker frozen"] += 1
