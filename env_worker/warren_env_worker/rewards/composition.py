"""The reward: the sum of its parts, each times its weight.

Invariant: it is the sum of all parts or none: when one fails, so does the whole.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from functools import cache
from typing import TypeVar

from warren_env_worker.background_loop import background_loop
from warren_env_worker.permissions.permissions import Permissions, current
from warren_env_worker.rewards.clients import (
    Asker,
    RewardClients,
    client_of,
    group_client_of,
)
from warren_env_worker.rewards.code import RewardCode
from warren_env_worker.rewards.function import GroupFunction, RewardFunction
from warren_env_worker.rewards.scored import RewardFailed, Scored, ScoredGroup
from warren_schemas.config import (
    CodeReward,
    FunctionReward,
    GroupFunctionReward,
    GroupJudgeReward,
    GroupReward,
    GroupServiceReward,
    JudgeReward,
    OwnReward,
    Reward,
    ServiceReward,
    name_of,
)
from warren_schemas.episode import FailureKind

_clients, _group_clients = RewardClients(client_of), RewardClients(group_client_of)
"""Of the background loop."""

Score = Callable[[Scored], Awaitable[float]]
GroupScore = Callable[[ScoredGroup], Awaitable[list[float]]]
Asking = ServiceReward | JudgeReward | GroupServiceReward | GroupJudgeReward
GivenT = TypeVar("GivenT")


class Composition:
    def __init__(self, parts: Sequence[Reward]) -> None:
        """Raises `ConfigError` for functions that are not there, and for what may not be reached."""
        permissions = current()
        self._parts = [
            (name_of(part, n), part, _score_of(part, permissions)) for n, part in enumerate(parts)
        ]

    async def score(self, scored: Scored) -> tuple[float | None, dict[str, float]]:
        """What the parts but `own` add up to, None where there are no others; and what each part gave before its
        weight, as metrics. Raises `RewardFailed`."""
        values = await asyncio.gather(
            *(_named(name, score(scored)) for name, _, score in self._parts)
        )
        given = [
            part.weight * value
            for (_, part, _), value in zip(self._parts, values, strict=True)
            if not isinstance(part, OwnReward)
        ]
        names = (f"reward/{name}" for name, _, _ in self._parts)
        return sum(given) if given else None, dict(zip(names, values, strict=True))


class GroupComposition:
    """Of the parts that compare a group."""

    def __init__(self, parts: Sequence[GroupReward]) -> None:
        """Raises `ConfigError` for functions that are not there or not allowed."""
        permissions = current()
        self._parts = [
            (name_of(part, n), part.weight, _group_score_of(part, permissions))
            for n, part in enumerate(parts)
        ]

    async def score(self, group: ScoredGroup) -> list[tuple[float, dict[str, float]]]:
        """Of each episode what the parts add up to, and what each part gave before its weight. Raises `RewardFailed`."""
        values = await asyncio.gather(
            *(_named(name, score(group)) for name, _, score in self._parts)
        )
        each = zip(*values, strict=True)
        return [(self._sum(given), self._metrics(given)) for given in each]

    def _sum(self, given: Sequence[float]) -> float:
        return sum(weight * value for (_, weight, _), value in zip(self._parts, given, strict=True))

    def _metrics(self, given: Sequence[float]) -> dict[str, float]:
        names = (f"reward/{name}" for name, _, _ in self._parts)
        return dict(zip(names, given, strict=True))


async def _named(name: str, score: Awaitable[GivenT]) -> GivenT:
    try:
        return await score
    except RewardFailed as error:
        reason = f"the reward {name} failed: {error}"
        raise RewardFailed(reason, error.kind, is_retryable=error.is_retryable) from error


def _score_of(part: Reward, permissions: Permissions) -> Score:
    if isinstance(part, OwnReward):
        return _own
    if isinstance(part, FunctionReward):
        return _function(*permissions.function(part.function))
    if isinstance(part, CodeReward):
        return RewardCode(part, permissions)
    asker = _asker_of(part, permissions)

    async def ask(scored: Scored) -> float:
        return await background_loop().call(_clients.score(asker(scored.run), scored))

    return ask


def _group_score_of(part: GroupReward, permissions: Permissions) -> GroupScore:
    if isinstance(part, GroupFunctionReward):
        return _group_function(*permissions.function(part.function))
    asker = _asker_of(part, permissions)

    async def ask(group: ScoredGroup) -> list[float]:
        return await background_loop().call(_group_clients.score(asker(group.run), group))

    return ask


def _asker_of(part: Asking, permissions: Permissions) -> Callable[[str], Asker]:
    """By run. Raises `ConfigError` for what may not be reached."""
    is_judge = isinstance(part, JudgeReward | GroupJudgeReward)
    url = f"{part.url.rstrip('/')}/chat/completions" if is_judge else part.url
    service = permissions.service(url, part.key_variable)
    shared = Asker(permissions.owner, service, part.model_dump_json())
    return lambda run: shared._replace(run=run) if is_judge else shared


async def _own(scored: Scored) -> float:
    if scored.own_reward is None:
        raise RewardFailed(
            "the environment gave none; leave the part out, or have it give one",
            FailureKind.NO_REWARD,
            is_retryable=False,
        )
    return scored.own_reward


@cache
def _function(path: str, only_public: bool) -> RewardFunction:
    return RewardFunction(path, only_public=only_public)


@cache
def _group_function(path: str, only_public: bool) -> GroupFunction:
    return GroupFunction(path, only_public=only_public)
