"""Fuzzed messages to a gateway and workers that run; then everybody must be alive, and a run complete.

Invariant: of these messages, each that was sent to a queue lies in `dead` with its reason, once, and none
is left; those of topics are passed over. Nothing that a part does for them ends it.
"""

import asyncio
import random
import tempfile
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from tests.fuzz.mutations import mutant
from tests.support.brokers import eventually
from tests.support.one_process import in_process, tiny_site

import warren
from warren_broker.port import Broker
from warren_broker.topology import (
    CANCELLATIONS,
    DEAD,
    POLICIES,
    RUNS,
    WORKERS,
    WorkQueue,
    generate,
    interact,
)
from warren_schemas.codec.frame import WireError
from warren_schemas.codec.wire import decode
from warren_schemas.ids import new_message_id

QUEUES = (interact("guess"), generate("warren/tiny"))
TOPICS = (WORKERS, POLICIES, RUNS, CANCELLATIONS)
CONFIG = {
    "name": "after the fuzz",
    "model": {"base": "warren/tiny"},
    "environments": [{"name": "guess"}],
    "limits": {"steps": 1},
}


@dataclass
class Told:
    sent: Counter[str] = field(default_factory=Counter[str])
    n_queued: int = 0
    """Of them to queues."""
    outcome: str = ""


async def fuzz(n_messages: int, seed: int) -> Told:
    """Raises what a part of the deployment ended with."""
    told, begun, is_done = Told(), asyncio.Event(), asyncio.Event()

    async def fuzzer(broker: Broker) -> None:
        await begun.wait()
        await _send(broker, n_messages, random.Random(seed), told)
        await _until_settled(broker, told)
        letters = await broker.dead_letters(limit=10_000)
        assert all(letter.reason for letter in letters)
        is_done.set()

    with tempfile.TemporaryDirectory() as folder:
        site = tiny_site(Path(folder), lambda: in_process(Path(folder) / "broker"))
        async with site.running(site.gpu_worker, site.env_worker, fuzzer) as client:
            told.outcome = await _run(client)
            print(f"a run before it: {told.outcome}", flush=True)
            begun.set()
            await is_done.wait()
            told.outcome = await _run(client)
    return told


async def _send(broker: Broker, n_messages: int, rng: random.Random, told: Told) -> None:
    while (n := told.sent.total()) < n_messages:
        name, body = mutant(rng)
        if _is_valid(body):
            continue  # a message like any other: what it asks for would only be done
        told.sent[name] += 1
        address = rng.choice((*QUEUES, *QUEUES, *TOPICS))
        told.n_queued += isinstance(address, WorkQueue)
        await broker.publish(address, body, message_id=new_message_id())
        if n % 10_000 == 0:
            print(f"{n:,} of {n_messages:,} messages", flush=True)


def _is_valid(body: bytes) -> bool:
    try:
        return bool(decode(body).items)
    except WireError:
        return False


async def _until_settled(broker: Broker, told: Told) -> None:
    """Each message of a queue is one dead letter in the end; those of topics are passed over."""

    async def is_settled() -> bool:
        return not any([await broker.depth(queue) for queue in QUEUES]) and (
            await broker.depth(DEAD) == told.n_queued
        )

    await eventually(is_settled)


async def _run(client: warren.Client) -> str:
    """Raises where it does not complete."""
    run = await client.train(CONFIG)
    await run.result()
    return "completed"
