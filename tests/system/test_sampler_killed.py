"""A sampler worker is killed under load, on RabbitMQ: another one answers all that it held.

Some turns wait for a policy that lies there only after the kill. So both workers hold turns at that
moment, whatever the machine is busy with, and nobody but the survivor can have answered them.
"""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

from tests.support.base_models import tiny_models
from tests.support.deployment import Site
from tests.support.episodes import EnvironmentSide, environment_side_of, first_turn, policy
from tests.support.forked_models import make_sampler_process
from tests.support.late_policy import LatePolicy
from tests.support.patience import several_waits
from tests.support.private_rabbit import PrivateRabbit

from warren_broker.connect import open_broker
from warren_broker.inbox import Inbox, listen
from warren_broker.topology import WORKERS, generate
from warren_gpu_worker.sampler.supervisor.service import serve_sampler
from warren_gpu_worker.settings import GpuWorkerSettings
from warren_schemas.config import Sampling
from warren_schemas.control import Heartbeat
from warren_schemas.episode import Generate, PolicyRef

__all__ = ["tiny_models"]

BASE = "killed/tiny"
"""A queue that nobody else uses, on a node that others use too."""
N_UNDER_WAY = 64


@asynccontextmanager
async def survivor(url: str, settings: GpuWorkerSettings) -> AsyncGenerator[None]:
    """In this process, with a child of its own; its failure is the test's."""
    async with open_broker(url, name="survivor") as broker, asyncio.TaskGroup() as tasks:
        serving = tasks.create_task(
            serve_sampler(broker, settings, make_process=make_sampler_process)
        )
        yield
        serving.cancel()


@asynccontextmanager
async def doomed(url: str, base_folder: str, home: Path) -> AsyncGenerator[Site]:
    """The program that users start, with its child."""
    site = Site(home, url, None)
    offered = ("--base-model", f"{BASE}={base_folder}", "--roles", "sampler")
    site.start("doomed", "gpu-worker", *offered, "--engine", "transformers")
    try:
        yield site
    finally:
        await asyncio.to_thread(site.stop)


async def until_both_hold_turns(
    side: EnvironmentSide, heartbeats: Inbox[Heartbeat], of: PolicyRef
) -> list[Generate]:
    """One turn more with every heartbeat, for the server hands them out in turn."""
    sent: list[Generate] = []
    busy: set[str] = set()
    while len(busy) < 2:
        for claim in await anext(heartbeats):
            if BASE in claim.item.offers:
                sent.append(first_turn(of))
                await side.send(sent[-1:])
                if claim.item.in_flight:
                    busy.add(claim.item.worker)
            claim.done()
    return sent


@several_waits
async def test_every_turn_of_a_killed_sampler_is_answered_by_another(
    private_rabbit: PrivateRabbit, tiny_models: dict[str, str], tmp_path: Path
) -> None:
    url, base_folder = private_rabbit.url, tiny_models["warren/tiny"]
    late = await asyncio.to_thread(LatePolicy, BASE, base_folder, tmp_path)
    settings = GpuWorkerSettings(
        base_models={BASE: base_folder},
        roles=frozenset({"sampler"}),
        engine="transformers",
        log_dir=tmp_path,
    )
    async with (
        open_broker(url, name="environment") as broker,
        environment_side_of(broker) as side,
        listen(broker, WORKERS, Heartbeat) as heartbeats,
        doomed(url, base_folder, tmp_path) as site,
        survivor(url, settings),
    ):
        await broker.declare(generate(BASE))
        turns = await until_both_hold_turns(side, heartbeats, late.reference)
        turns += [
            first_turn(policy(BASE), sampling=Sampling(max_tokens=48)) for _ in range(N_UNDER_WAY)
        ]
        await side.send(turns[-N_UNDER_WAY:])
        steps = await side.steps(1)
        await site.kill("doomed")
        await asyncio.to_thread(late.deliver)
        asked = {(turn.envelope.episode, 1) for turn in turns}
        while len({(step.envelope.episode, step.turn) for step in steps}) < len(turns):
            steps += await side.steps(1)
        assert {(step.envelope.episode, step.turn) for step in steps} == asked
        await broker.delete(generate(BASE))
