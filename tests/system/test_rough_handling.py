"""A deployment that is handled roughly: garbage in every queue, runs cancelled whatever they do.

Gateway, GPU worker and env worker are real processes, the same from the first test to the last, and
there is one of each: whatever held it up, or brought it down, would stop what comes after.
"""

import asyncio
from collections.abc import Callable, Generator

import aio_pika
import pytest
from tests.support.deployment import Site, connected
from tests.support.items import heartbeat
from tests.support.patience import PATIENCE_S, several_waits
from tests.support.private_rabbit import PrivateRabbit, running_rabbit

from warren import Client, Run, RunCancelled
from warren_schemas.codec.wire import encode
from warren_schemas.config import TrainConfig
from warren_schemas.events import (
    Phase,
    RunEventBody,
    RunState,
    StateChanged,
    StepCompleted,
    WaitingStarted,
)

Sign = Callable[[RunEventBody], bool]

ENDLESS = 1_000_000
PREFIX = "warren."
WORK = (
    "jobs.",
    "interact.",
    "compare.",
    "generate.",
    "home.",
    "trainer.",
    "train.",
    "results.",
    "file-cleanup",
)
"""Queues from which what can't be read must go to `dead`; streams and topics pass it over."""


@pytest.fixture(scope="module")
def rabbit() -> Generator[PrivateRabbit]:
    with running_rabbit() as node:
        yield node


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory, rabbit: PrivateRabbit) -> Generator[Site]:
    site = Site(tmp_path_factory.mktemp("site"), rabbit.url, store=None)
    try:
        asyncio.run(site.start_gateway())
        site.start("gpu", "gpu-worker", "--base-model", "warren/tiny")
        site.start("env", "env-worker", "--env", "warren_env_worker.environments.faulty:Hang")
        yield site
    finally:
        site.stop()


def config(**changes: object) -> TrainConfig:
    base: dict[str, object] = {
        "model": {"base": "warren/tiny", "update": {"kind": "full"}},
        "environments": [{"name": "echo"}],
        "algorithm": {"group_size": 4, "groups_per_step": 2},
        "limits": {"steps": ENDLESS},
    }
    return TrainConfig.model_validate({**base, **changes})


def is_waiting(body: RunEventBody) -> bool:
    return isinstance(body, WaitingStarted)


def is_in(phase: Phase) -> Sign:
    return lambda body: isinstance(body, StateChanged) and body.phase is phase


def has_made_a_step(phase: Phase) -> Sign:
    return lambda body: isinstance(body, StepCompleted) and body.phase is phase


STATES: dict[str, tuple[TrainConfig, Sign]] = {
    "waits for an environment": (config(environments=[{"name": "chess"}]), is_waiting),
    "waits for a base model": (config(model={"base": "warren/huge"}), is_waiting),
    "warms up": (config(sft={"steps": ENDLESS}), has_made_a_step(Phase.SFT)),
    "evaluates": (config(evaluation={"episodes": ENDLESS}), is_in(Phase.EVALUATION)),
    "begins to train": (config(), is_in(Phase.TRAINING)),
    "trains": (config(), has_made_a_step(Phase.TRAINING)),
    "is in a call that hangs": (config(environments=[{"name": "hang", "config": {"rate": 1.0}}]), is_in(Phase.TRAINING)),
}  # fmt: skip


async def see(run: Run, sign: Sign) -> None:
    async for event in run.events():
        if sign(event.body):
            return
    raise AssertionError(f"{run.id} has ended before it could be cancelled")


async def cancel(run: Run) -> None:
    await run.cancel()
    with pytest.raises(RunCancelled):
        await run.result()
    view = await run.refresh()
    assert view.state is RunState.CANCELLED
    assert view.error == "cancelled by its owner"
    assert view.waiting_for is None


async def cancel_in_each_state(client: Client) -> None:
    await cancel(await client.train(config()))
    for name, (wanted, sign) in STATES.items():
        run = await client.train(wanted.model_copy(update={"name": name}))
        async with asyncio.timeout(PATIENCE_S):
            await see(run, sign)
            await cancel(run)


async def cancel_one_that_waits_for_the_others_trainer(client: Client) -> None:
    """A full model has its trainer to itself."""
    first = await client.train(config())
    await see(first, is_in(Phase.TRAINING))
    second = await client.train(config())
    await see(second, is_waiting)
    await cancel(second)
    await see(first, has_made_a_step(Phase.TRAINING))
    await cancel(first)


async def check_that_all_work(site: Site, client: Client) -> None:
    run = await client.train(config(sft={"steps": 2}, limits={"steps": 1}))
    assert (await run.result()).version >= 2
    assert all(process.poll() is None for process in site.processes.values())


def queues_of_models(rabbit: PrivateRabbit) -> list[str]:
    return [name for name in rabbit.queues() if "train.model_" in name or "results.model_" in name]


async def throw_garbage(rabbit: PrivateRabbit, queues: list[str]) -> None:
    """What is no message at all, and a message that belongs elsewhere."""
    async with await aio_pika.connect(rabbit.url) as connection:
        exchange = (await connection.channel()).default_exchange
        for queue in queues:
            for name, body in ("garbage", b"garbage" * 9), ("stray", encode([heartbeat()])):
                message = aio_pika.Message(body, message_id=f"{name} for {queue}")
                await exchange.publish(message, routing_key=queue)


def origin_of(queue: str) -> str:
    """What can't be read in a home is a matter of the queue that the home falls back to."""
    return f"interact.{queue.split('.')[2]}" if queue.startswith("home.") else queue


@several_waits
@pytest.mark.storm
@pytest.mark.thorough
async def test_garbage_in_every_queue_goes_to_dead_and_stops_nobody(
    site: Site, rabbit: PrivateRabbit
) -> None:
    async with connected(site) as client:
        run = await client.train(config())
        await see(run, has_made_a_step(Phase.TRAINING))
        queues = await asyncio.to_thread(rabbit.queues)
        await throw_garbage(rabbit, list(queues))

        missing = {
            (origin_of(queue), what)
            for name in queues
            if (queue := name.removeprefix(PREFIX)).startswith(WORK)
            for what in ("a message starts with", "wrong kind")
        }
        async for event in run.events():
            if isinstance(event.body, StepCompleted):
                letters = await client.dead_letters(limit=1000)
                missing -= {
                    (queue, what)
                    for queue, what in missing
                    for letter in letters
                    if letter.origin == queue and what in letter.reason
                }
                if all(is_of_jobs(item) for item in missing):
                    break
        await cancel(run)
        await check_that_all_work(site, client)
        await until_found(client, {item for item in missing if is_of_jobs(item)})


def is_of_jobs(item: tuple[str, str]) -> bool:
    """A queue of jobs is read while a trainer has room for one."""
    return item[0].startswith("jobs.")


async def until_found(client: Client, missing: set[tuple[str, str]]) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while missing:
            letters = await client.dead_letters(limit=1000)
            found = {
                (q, what)
                for q, what in missing
                for l in letters
                if l.origin == q and what in l.reason
            }
            missing -= found
            await asyncio.sleep(0.2 if missing else 0)


async def letters_of_ours(client: Client) -> set[str]:
    """Garbage may still be found, by whoever is the next to read its queue."""
    ids = {letter.id for letter in await client.dead_letters(limit=1000)}
    return {id for id in ids if not id.startswith(("garbage for", "stray for"))}


@pytest.mark.storm
@pytest.mark.thorough
@several_waits
async def test_a_run_may_be_cancelled_whatever_it_does(site: Site, rabbit: PrivateRabbit) -> None:
    async with connected(site) as client:
        before = await letters_of_ours(client)
        await cancel_in_each_state(client)
        await cancel_one_that_waits_for_the_others_trainer(client)
        await check_that_all_work(site, client)
        assert await letters_of_ours(client) == before
    async with asyncio.timeout(PATIENCE_S):  # the last run's queues go after its end is told
        while await asyncio.to_thread(queues_of_models, rabbit):
            pass
