"""Episodes by hand: the two ends of the sampler's queue, without an env worker or a gateway."""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from typing import TypeVar

from warren_broker.batch_publisher import BatchPublisher
from warren_broker.inbox import Inbox, follow, receive
from warren_broker.memory import MemoryHub
from warren_broker.port import Broker
from warren_broker.topology import generate, home, sampler_home, trajectories
from warren_schemas.config import Sampling
from warren_schemas.envelope import Envelope, Item
from warren_schemas.episode import EpisodeEnded, EpisodeSpec, Generate, PolicyRef, Step, TaskRef
from warren_schemas.ids import RunId, new_episode_id, new_group_id, new_model_id
from warren_schemas.transcript import ChatMessage, Transcript

ItemT = TypeVar("ItemT", bound=Item)

HOME = "env_1"
ENVIRONMENT = "guess"
RUN = RunId("run_a")


def user(content: str) -> ChatMessage:
    return ChatMessage(role="user", content=content)


def policy(base_model: str = "warren/tiny", **changes: object) -> PolicyRef:
    untrained = PolicyRef(model=new_model_id(), base_model=base_model, min_version=0)
    return untrained.model_copy(update=changes)


def first_turn(
    of: PolicyRef,
    *messages: ChatMessage,
    sampling: Sampling | None = None,
    forced_action: str | None = None,
    deadline_s: float | None = None,
    run: RunId | None = RUN,
) -> Generate:
    spec = EpisodeSpec(
        group=new_group_id(),
        member=0,
        environment=ENVIRONMENT,
        task=TaskRef(index=0),
        seed=0,
        policy=of,
        sampling=sampling or Sampling(max_tokens=4),
        max_turns=8,
    )
    return Generate(
        envelope=Envelope(run=run, episode=new_episode_id(), deadline_s=deadline_s),
        spec=spec,
        transcript=Transcript(messages=messages or (user("?"),)),
        turn=0,
        home=HOME,
        forced_action=forced_action,
    )


def next_turn(step: Step, *messages: ChatMessage) -> Generate:
    transcript = step.transcript
    longer = transcript.model_copy(update={"messages": (*transcript.messages, *messages)})
    return Generate(
        envelope=step.envelope,
        spec=step.spec,
        transcript=longer,
        turn=step.turn,
        home=HOME,
    )


class EnvironmentSide:
    """Publishes turns and collects what comes back, steps and failures alike."""

    def __init__(
        self, batch_publisher: BatchPublisher, steps: Inbox[Step], ends: Inbox[EpisodeEnded]
    ) -> None:
        self._batch_publisher = batch_publisher
        self._steps = steps
        self._ends = ends

    async def send_back(self, items: Sequence[Generate], sampler: str) -> None:
        """To the sampler that took the turns before."""
        for item in items:
            own = sampler_home(sampler, item.spec.policy.base_model)
            await self._batch_publisher.send(own, item)

    async def send(self, items: Sequence[Generate]) -> None:
        by_base: dict[str, list[Generate]] = {}
        for item in items:
            by_base.setdefault(item.spec.policy.base_model, []).append(item)
        for base_model, group in by_base.items():
            await self._batch_publisher.send_all(generate(base_model), group)

    async def steps(self, n: int, timeout_s: float = 200.0) -> list[Step]:
        """The next `n` steps or a few more, as they come in messages; duplicates included."""
        return await asyncio.wait_for(_collect(self._steps, n), timeout_s)

    async def ends(self, n: int, timeout_s: float = 200.0) -> list[EpisodeEnded]:
        return await asyncio.wait_for(_collect(self._ends, n), timeout_s)

    async def ask(self, items: Sequence[Generate]) -> list[Step]:
        """One turn of each, in the order of asking."""
        await self.send(items)
        steps = {step.envelope.episode: step for step in await self.steps(len(items))}
        return [steps[item.envelope.episode] for item in items]


async def _collect(inbox: Inbox[ItemT], n: int) -> list[ItemT]:
    items: list[ItemT] = []
    while len(items) < n:
        for claim in await anext(inbox):
            items.append(claim.item)
            claim.done()
    return items


@asynccontextmanager
async def environment_side(hub: MemoryHub) -> AsyncGenerator[EnvironmentSide]:
    broker = hub.client("environment")
    await broker.declare(generate("warren/tiny"), generate("warren/tiny-lora"))
    async with environment_side_of(broker) as side:
        yield side
    await broker.close()


@asynccontextmanager
async def environment_side_of(broker: Broker) -> AsyncGenerator[EnvironmentSide]:
    """Whoever sends turns must have declared their queues."""
    stream = trajectories(RUN)
    await broker.declare(stream)
    async with (
        receive(broker, home(HOME, ENVIRONMENT), Step, prefetch=64) as steps,
        follow(broker, stream, EpisodeEnded, start="first") as ends,
    ):
        yield EnvironmentSide(BatchPublisher(broker), steps, ends)
