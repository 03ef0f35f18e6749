"""A sampler that answers the gateway's questions by rote, and what asks it."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import numpy as np
import pytest
from tests.support.gateway import Gateway, heartbeat

from warren_broker.batch_publisher import BatchPublisher
from warren_broker.inbox import receive
from warren_broker.port import Broker
from warren_broker.topology import generate, home
from warren_schemas.control import WorkerRole
from warren_schemas.episode import (
    EpisodeEnded,
    Failed,
    FailureKind,
    FinishReason,
    Generate,
    Step,
)
from warren_schemas.transcript import ChatMessage, Tokens, Transcript

BASE = "warren/tiny"


@pytest.fixture
def ignored() -> asyncio.Queue[Generate]:
    """What the sampler was asked and does not answer."""
    return asyncio.Queue()


@pytest.fixture
async def asking(gateway: Gateway, ignored: asyncio.Queue[Generate]) -> AsyncGenerator[Gateway]:
    """A gateway that takes answers in, and a sampler that answers by rote."""
    async with answering(gateway, ignored):
        yield gateway


@asynccontextmanager
async def answering(gateway: Gateway, ignored: asyncio.Queue[Generate]) -> AsyncGenerator[None]:
    """Let the gateway take answers in, and a sampler answer by rote."""
    gateway.services.registry.hear(heartbeat("sampler_1", WorkerRole.SAMPLER, BASE))
    await gateway.broker.declare(generate(BASE))
    tasks = [
        asyncio.create_task(gateway.services.sampler_requests.run()),
        asyncio.create_task(answer_by_rote(gateway.broker, ignored)),
    ]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)


async def answer_by_rote(broker: Broker, ignored: asyncio.Queue[Generate]) -> None:
    """Do what the last message says, or say `a b`."""
    batch_publisher = BatchPublisher(broker)
    async with receive(broker, generate(BASE), Generate, prefetch=8) as inbox:
        async for claims in inbox:
            for claim in claims:
                if (answer := answered(claim.item)) is None:
                    ignored.put_nowait(claim.item)
                else:
                    address = home(claim.item.home, claim.item.spec.environment)
                    await batch_publisher.send(address, answer)
                claim.done()


def answered(item: Generate) -> Step | EpisodeEnded | None:
    messages = item.transcript.messages
    order, _, rest = (messages[-1].content if messages else "").partition(" ")
    match order:
        case "never":
            return None
        case "fail":
            return failed(item, FailureKind(rest))
        case "say":
            return step(item, rest)
        case "repeat":
            return step(item, "|".join(f"{m.role}:{m.content}" for m in messages))
        case _:
            return step(item, "a b")


def failed(item: Generate, kind: FailureKind) -> EpisodeEnded:
    return EpisodeEnded(
        envelope=item.envelope,
        spec=item.spec,
        transcript=item.transcript,
        outcome=Failed(kind=kind, reason="it did not work"),
        worker="sampler_1",
        started_s=0.0,
        ended_s=1.0,
    )


def step(item: Generate, words: str) -> Step:
    version = item.spec.policy.min_version
    prompt = item.transcript.tokens.ids_T.tolist() or [2, 45]
    n = len(prompt)
    tokens = Tokens(
        ids_T=np.array([*prompt, 8, 1], np.int32),
        mask_T=np.array([0] * n + [1, 1], np.uint8),
        logprobs_T=np.array([0] * n + [-0.5, -0.25], np.float32),
        versions_T=np.array([-1] * n + [version, version], np.int32),
    )
    answer = ChatMessage(role="assistant", content=words)
    messages = (*item.transcript.messages, answer)
    transcript = Transcript(messages=messages, n_rendered=len(messages), tokens=tokens)
    return Step(
        envelope=item.envelope,
        spec=item.spec,
        transcript=transcript,
        turn=1,
        finish=FinishReason.STOP,
    )


async def post(
    client: aiohttp.ClientSession, path: str, body: dict[str, Any]
) -> tuple[int, dict[str, Any]]:
    async with client.post(path, json=body) as response:
        assert response.content_type == "application/json"
        return response.status, await response.json()
