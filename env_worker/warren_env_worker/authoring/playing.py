"""Episodes in processes of their own, as an env worker plays them, for a caller without an event loop.

Invariants: an environment's host is started once and serves all episodes of its class; all of them end with `close`. An
episode that fails raises `EpisodeFailed`: a failure is never a reward. A policy that is a function is called in the
caller's thread, where it may block.
"""

import asyncio
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from warren.environment import ChatMessage, Env, Image
from warren_env_worker.background_loop import background_loop
from warren_env_worker.host.host import Host
from warren_env_worker.host.protocol import Message, Observed
from warren_env_worker.served_episode import Episode, EpisodeFailed
from warren_schemas.config import Sampling
from warren_schemas.episode import EpisodePurpose, EpisodeSpec, PolicyRef, TaskRef
from warren_schemas.ids import GroupId, ModelId
from warren_schemas.operator_policy import TRUSTING

Policy = Callable[[Sequence[ChatMessage]], str] | Sequence[str] | None
"""From all messages so far to the next action, or the actions, of which the last is said again and again; None says what
the environment demonstrates."""
MOST_S = 600.0
"""An environment that answers no sooner has failed."""
ResultT = TypeVar("ResultT")
_NOBODYS = PolicyRef(model=ModelId("test"), base_model="test", min_version=0)


@dataclass(slots=True)
class PlayedEpisode:
    """An episode that was played."""

    messages: list[ChatMessage] = field(default_factory=list[ChatMessage])
    rewards: list[float | None] = field(default_factory=list[float | None])
    """Of each turn; None where it gave none."""
    metrics: dict[str, float] = field(default_factory=dict[str, float])
    is_over: bool = False
    """False where `max_turns` of the test ended it."""
    truncated: bool = False
    task_id: str | None = None
    category: str | None = None

    @property
    def reward(self) -> float:
        """The sum of the rewards that were given."""
        return sum(reward for reward in self.rewards if reward is not None)


@dataclass(frozen=True, slots=True)
class Asked:
    """Which episode it is to be."""

    config: Mapping[str, Any]
    seed: int
    split: str
    index: int
    member: int
    level: int | None
    max_turns: int

    def spec(self, reference: str, *, demonstrates: bool) -> EpisodeSpec:
        purpose = EpisodePurpose.DEMONSTRATE if demonstrates else EpisodePurpose.TRAIN
        return EpisodeSpec(
            group=GroupId("test"),
            member=self.member,
            purpose=purpose,
            environment=reference.rpartition(":")[2],
            environment_config=dict(self.config),
            task=TaskRef(split=self.split, index=self.index, shuffle=False, level=self.level),
            seed=self.seed,
            policy=_NOBODYS,
            sampling=Sampling(),
            max_turns=self.max_turns,
        )


class Players:
    """The hosts of a test session, by their references."""

    def __init__(self) -> None:
        self._hosts: dict[str, Host] = {}
        self._running: list[asyncio.Task[None]] = []

    def play(
        self, environment: type[Env[Any]] | str, policy: Policy, asked: Asked
    ) -> PlayedEpisode:
        """Raises `EpisodeFailed`, `EnvironmentUnusable`, and what the policy raises."""
        reference = reference_of(environment)
        spec = asked.spec(reference, demonstrates=policy is None)
        episode = _wait(self._opened(reference, spec))
        try:
            return _played(episode, policy)
        finally:
            _wait(_closed(episode))

    def close(self) -> None:
        _wait(self._close())

    async def _opened(self, reference: str, spec: EpisodeSpec) -> Episode:
        return Episode(await self._host(reference), spec)

    async def _host(self, reference: str) -> Host:
        if reference not in self._hosts:
            host = Host(reference, policy=TRUSTING)
            self._running.append(asyncio.create_task(host.run(), name=f"host of {reference}"))
            self._hosts[reference] = host
        await self._hosts[reference].start()
        return self._hosts[reference]

    async def _close(self) -> None:
        for running in self._running:
            running.cancel()
        if self._running:
            await asyncio.wait(self._running)


def reference_of(environment: type[Env[Any]] | str) -> str:
    """As `module:Class`."""
    if isinstance(environment, str):
        return environment
    return f"{environment.__module__}:{environment.__qualname__}"


def _wait(coroutine: Coroutine[Any, Any, ResultT]) -> ResultT:
    try:
        return background_loop().wait(coroutine, limit_s=MOST_S)
    except TimeoutError as error:
        raise EpisodeFailed(f"its process did not answer in {MOST_S:g} s") from error


async def _closed(episode: Episode) -> None:
    episode.close()


def _played(episode: Episode, policy: Policy) -> PlayedEpisode:
    shown = _wait(episode.begin())
    played = PlayedEpisode(task_id=shown.task_id, category=shown.category)
    played.messages += _messages(shown)
    while not shown.is_over:
        action = _next(policy, shown, played)
        shown = _wait(episode.act(action))
        played.messages += [ChatMessage(role="assistant", content=action), *_messages(shown)]
        played.rewards.append(shown.reward)
        played.metrics |= shown.metrics
    played.is_over, played.truncated = not shown.is_truncated, shown.is_truncated
    return played


def _next(policy: Policy, shown: Observed, played: PlayedEpisode) -> str:
    if policy is None:
        assert shown.demonstration is not None  # a host refuses what demonstrates nothing
        return shown.demonstration
    if callable(policy):
        return policy(played.messages)
    return policy[min(len(played.rewards), len(policy) - 1)]


def _messages(shown: Observed) -> list[ChatMessage]:
    return [_message(message) for message in shown.messages]


def _message(message: Message) -> ChatMessage:
    role, content, *pictures = message
    images = tuple(Image(media_type=kind, base64=data) for of in pictures for kind, data in of)
    return ChatMessage(role=role, content=content, images=images)
