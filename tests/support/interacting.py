"""A sampler and a coordinator in a few lines, for tests and measurements of the env worker."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

from warren_broker.batch_publisher import BatchPublisher
from warren_broker.errors import Unroutable
from warren_broker.inbox import follow, receive
from warren_broker.port import Broker
from warren_broker.topology import Home, generate, home, interact, trajectories
from warren_schemas.config import Sampling
from warren_schemas.envelope import Envelope
from warren_schemas.episode import (
    EpisodeEnded,
    EpisodePurpose,
    EpisodeSpec,
    FinishReason,
    Generate,
    PolicyRef,
    StartEpisode,
    Step,
    TaskRef,
)
from warren_schemas.ids import EpisodeId, GroupId, ModelId, RunId
from warren_schemas.transcript import ChatMessage

BASE_MODEL = "tiny"
RUN = RunId("run_1")

Policy = Callable[[Generate], str]


def spec(environment: str = "letters", **changes: Any) -> EpisodeSpec:
    """An episode; keyword arguments are fields of the spec."""
    fields: dict[str, Any] = {
        "group": GroupId("group_1"),
        "member": 0,
        "environment": environment,
        "task": TaskRef(index=0),
        "seed": 1,
        "policy": PolicyRef(model=ModelId("model_1"), base_model=BASE_MODEL, min_version=0),
        "sampling": Sampling(),
        "max_turns": 8,
    }
    return EpisodeSpec(**(fields | changes))


def demonstration(environment: str, member: int = 0, **changes: Any) -> EpisodeSpec:
    purpose = EpisodePurpose.DEMONSTRATE
    return spec(environment, member=member, purpose=purpose, **changes)


def start(
    episode: str = "ep_1",
    of: EpisodeSpec | None = None,
    *,
    run: RunId = RUN,
    attempt: int = 1,
    deadline_s: float | None = None,
) -> StartEpisode:
    return StartEpisode(
        envelope=Envelope(
            run=run, episode=EpisodeId(episode), attempt=attempt, deadline_s=deadline_s
        ),
        spec=of or spec(),
    )


def said(item: Generate, words: str) -> Step:
    """What a sampler makes of it."""
    before = item.transcript
    message = ChatMessage(role="assistant", content=words)
    transcript = before.model_copy(update={"messages": (*before.messages, message)})
    return Step(
        envelope=item.envelope,
        spec=item.spec,
        transcript=transcript,
        turn=item.turn + 1,
        finish=FinishReason.STOP,
    )


def echo(item: Generate) -> str:
    """The policy that says what it was shown last, or what it is forced to."""
    return item.forced_action or item.transcript.messages[-1].content


async def start_all(broker: Broker, starts: Sequence[StartEpisode]) -> None:
    queue = interact(starts[0].spec.environment, starts[0].spec.owner)
    await broker.declare(queue, trajectories(starts[0].envelope.run or RUN))
    await BatchPublisher(broker).send_all(queue, starts)


async def endings(broker: Broker, n: int, *, run: RunId = RUN) -> list[EpisodeEnded]:
    """The first end of each of `n` episodes of the run."""
    ended: dict[str, EpisodeEnded] = {}
    async with follow(broker, trajectories(run), EpisodeEnded, start="first") as inbox:
        async for claims in inbox:
            for claim in claims:
                ended.setdefault(claim.item.envelope.episode or "", claim.item)
                claim.done()
            if len(ended) >= n:
                break
    return list(ended.values())


@asynccontextmanager
async def sampling(
    broker: Broker, policy: Policy = echo, *, finds_home: bool = True
) -> AsyncGenerator[None]:
    """A sampler that answers with this policy while the context lasts.

    One that finds no home sends each step where it would fall back to.
    """
    async with asyncio.TaskGroup() as group:
        task = group.create_task(_sample(broker, policy, finds_home), name="sampler")
        yield
        task.cancel()


async def _sample(broker: Broker, policy: Policy, finds_home: bool) -> None:
    batch_publisher = BatchPublisher(broker)
    await broker.declare(generate(BASE_MODEL))
    async with receive(broker, generate(BASE_MODEL), Generate, prefetch=16) as inbox:
        async for claims in inbox:
            by_home: dict[Home, list[Step]] = {}
            for claim in claims:
                item = claim.item
                where = home(item.home, item.spec.environment, item.spec.owner)
                by_home.setdefault(where, []).append(said(item, policy(item)))
            for where, steps in by_home.items():
                if finds_home:
                    await _send_home(batch_publisher, where, steps)
                else:
                    await batch_publisher.send_all(where.fallback, steps)
            for claim in claims:
                claim.done()


async def _send_home(batch_publisher: BatchPublisher, where: Home, steps: Sequence[Step]) -> None:
    try:
        await batch_publisher.send_all(where, steps)
    except Unroutable:
        await batch_publisher.send_all(where.fallback, steps)
