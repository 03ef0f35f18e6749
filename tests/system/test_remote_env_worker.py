"""Runs whose environment exists on a laptop alone: its worker reaches the gateway, and no broker.

Gateway, GPU worker and the remote env workers are processes of their own, on RabbitMQ and PostgreSQL.
The worker is killed and started again in the middle of the run, and so is the gateway. Another owner's
worker offers an environment of the same name all the while, and is given nothing.
"""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from tests.support.deployment import Site
from tests.support.patience import PATIENCE_S, several_waits
from tests.support.private_rabbit import PrivateRabbit

import warren
from warren import Client, RunFailed
from warren_gateway.access.callers import Callers
from warren_gateway.access.key import Key
from warren_gateway.access.keys import ApiKeys
from warren_gateway.store.store import Store
from warren_schemas.events import LogComponent, StepCompleted
from warren_schemas.http import WorkerView

PARITY = '''
from warren import Env, StepResult


class Parity(Env):
    """Two digits, one after the other: is each even or odd?"""

    name = "parity"

    def reset(self, task, ctx):
        self.rng, self.n_taken = ctx.rng, 0
        print("an episode begins")
        return self.ask()

    def ask(self):
        self.digit = self.rng.randrange(10)
        return f"{self.digit}?"

    def step(self, action):
        self.n_taken += 1
        is_right = action == ("o" if self.digit % 2 else "e")
        is_last = self.n_taken == 2
        return StepResult("" if is_last else self.ask(), reward=float(is_right), done=is_last)

    def demonstrate(self, rng):
        return rng.choice("eo")
'''
N_STEPS = 9
CONFIG = {
    "name": "parity",
    "model": {"base": "warren/tiny", "update": {"kind": "full"}},
    "environments": [{"name": "parity", "workers": "own"}],
    "sampling": {"max_tokens": 2},
    "sft": {"steps": 40},
    "limits": {"steps": N_STEPS, "episode_s": 60},
}
OPTIONS = ("--env", "parity:Parity", "--only")


@pytest.fixture
async def site(
    tmp_path: Path, private_rabbit: PrivateRabbit, private_postgres: str
) -> AsyncGenerator[Site]:
    site = Site(tmp_path, private_rabbit.url, private_postgres)
    try:
        await site.start_gateway()
        site.start("gpu", "gpu-worker", "--base-model", "warren/tiny")
        yield site
    finally:
        await asyncio.to_thread(site.stop)


@asynccontextmanager
async def connected(site: Site, key: str) -> AsyncGenerator[Client]:
    async with warren.connect(site.url, api_key=key) as client:
        yield client


async def key_of_bob(store_url: str) -> str:
    key = Key.new()
    store = await Store.open(store_url)
    try:
        await ApiKeys(store, Callers(store)).add(key, "bob")
    finally:
        await store.close()
    return str(key)


@pytest.mark.storm
@several_waits
async def test_a_run_on_a_laptop_survives_its_worker_and_its_gateway(
    site: Site, private_postgres: str, tmp_path: Path
) -> None:
    laptop = tmp_path / "laptop"
    laptop.mkdir()
    (laptop / "parity.py").write_text(PARITY)
    mine, bobs = (site.home / "api-key").read_text().strip(), await key_of_bob(private_postgres)
    site.start_remote("bob", *OPTIONS, api_key=bobs, folder=laptop)
    site.start_remote("laptop", *OPTIONS, api_key=mine, folder=laptop)
    async with connected(site, mine) as client, connected(site, bobs) as bob:
        run = await client.train(CONFIG)
        steps: list[int] = []
        async for event in run.events():
            body = event.body
            if not isinstance(body, StepCompleted) or body.phase != "training":
                continue
            steps.append(body.step)
            if body.step == 2:
                await site.kill("laptop")
                site.start_remote("laptop", *OPTIONS, api_key=mine, folder=laptop)
            if body.step == 5:
                await site.kill("gateway")
                await site.start_gateway()
        try:
            result = await run.result()
        except RunFailed as error:
            raise AssertionError(site.log("gateway").read_text()[-3000:]) from error
        of_bob = await env_worker(bob, of=site.processes["bob"].pid)
        assert await env_workers(client, of=site.processes["bob"].pid) == []
        await env_worker(client, of=site.processes["laptop"].pid, has_done=1)
        said = [entry async for entry in run.logs()]

    assert {entry.component for entry in said} == set(LogComponent)
    printed = {entry.worker for entry in said if entry.text.endswith("] an episode begins")}
    assert len(printed) == 2  # before and after it was killed
    assert len({entry.worker for entry in said if entry.component is LogComponent.COORDINATOR}) == 2
    assert steps == list(range(1, N_STEPS + 1))
    assert result.updates > 0
    assert (of_bob.n_done, of_bob.in_flight) == (0, 0)
    assert all(process.poll() is None for process in site.processes.values())


async def env_worker(client: Client, *, of: int, has_done: int = 0) -> WorkerView:
    """It, once it has told the gateway that came last; without an event for those who look."""
    async with asyncio.timeout(PATIENCE_S):
        while True:
            for worker in await env_workers(client, of=of):
                if worker.n_done >= has_done:
                    return worker
            await asyncio.sleep(0.2)


async def env_workers(client: Client, *, of: int) -> list[WorkerView]:
    """Those that this owner sees of this process."""
    return [worker for worker in await client.workers() if worker.pid == of]
