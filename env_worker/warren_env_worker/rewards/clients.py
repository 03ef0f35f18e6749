"""The clients of this process that ask services and judges for rewards: those that ask, and the last ones that did.

Invariants: one owner's episodes that ask a service in the same way share a client, so that their requests go
together and keep to one `in_flight`, and one run's those of a judge, who has a budget; what one owner's episodes send can neither
spoil nor hold up another's requests. A client that is asking stays; of the others at most `MAX_IDLE` do, and they
hold no connection. What a run has spent is remembered longer than its client.
"""

import os
from collections import OrderedDict
from collections.abc import Callable
from typing import Annotated, Generic, NamedTuple, Protocol, TypeVar

from pydantic import Field, TypeAdapter

from warren_env_worker.permissions.service import Service
from warren_env_worker.rewards.judge import Spent, judge_of_episodes, judge_of_groups
from warren_env_worker.rewards.scored import Scored, ScoredGroup
from warren_env_worker.rewards.service import GroupRewardService, RewardService
from warren_schemas.config import (
    GroupJudgeReward,
    GroupServiceReward,
    JudgeReward,
    ServiceReward,
)

MAX_IDLE = 32
MAX_BUDGETS = 4096

_SETTINGS: TypeAdapter[ServiceReward | JudgeReward] = TypeAdapter(
    Annotated[ServiceReward | JudgeReward, Field(discriminator="kind")]
)
_GROUP_SETTINGS: TypeAdapter[GroupServiceReward | GroupJudgeReward] = TypeAdapter(
    Annotated[GroupServiceReward | GroupJudgeReward, Field(discriminator="kind")]
)
AskedT = TypeVar("AskedT")
GivenT = TypeVar("GivenT")
_AskedT_contra = TypeVar("_AskedT_contra", contravariant=True)
_GivenT_co = TypeVar("_GivenT_co", covariant=True)


class Asker(NamedTuple):
    owner: str
    service: Service
    settings: str
    """Of the part, as JSON."""
    run: str = ""
    """Empty where runs share a client."""


class Client(Protocol[_AskedT_contra, _GivenT_co]):
    @property
    def is_idle(self) -> bool: ...

    async def score(self, scored: _AskedT_contra, /) -> _GivenT_co: ...


class RewardClients(Generic[AskedT, GivenT]):
    """For one event loop."""

    def __init__(self, make: Callable[[Asker, Spent], Client[AskedT, GivenT]]) -> None:
        """`make` makes a client of what its run has spent, `client_of` or `group_client_of`."""
        self._make = make
        self._clients: dict[tuple[int, Asker], Client[AskedT, GivenT]] = {}
        """By process, too: a forked one finds those of its parent, which are not for its loop. The one that
        was asked last comes last."""
        self._spent: OrderedDict[Asker, Spent] = OrderedDict()

    def __len__(self) -> int:
        return len(self._clients)

    async def score(self, asker: Asker, scored: AskedT) -> GivenT:
        """Raises `RewardFailed`."""
        key = os.getpid(), asker
        client = self._clients.pop(key, None) or self._make(asker, self._budget(asker))
        self._clients[key] = client
        try:
            return await client.score(scored)
        finally:
            self._forget_idle()

    def _forget_idle(self) -> None:
        idle = [key for key, client in self._clients.items() if client.is_idle]
        for key in idle[: max(0, len(idle) - MAX_IDLE)]:
            del self._clients[key]

    def _budget(self, asker: Asker) -> Spent:
        spent = self._spent.setdefault(asker, Spent())
        self._spent.move_to_end(asker)
        if len(self._spent) > MAX_BUDGETS:
            self._spent.popitem(last=False)
        return spent


def client_of(asker: Asker, spent: Spent) -> Client[Scored, float]:
    """For parts that look at one episode."""
    settings = _SETTINGS.validate_json(asker.settings)
    if isinstance(settings, ServiceReward):
        return RewardService(asker.service, settings)
    return judge_of_episodes(asker.service, settings, spent)


def group_client_of(asker: Asker, spent: Spent) -> Client[ScoredGroup, list[float]]:
    """For parts that compare the episodes of a group."""
    settings = _GROUP_SETTINGS.validate_json(asker.settings)
    if isinstance(settings, GroupServiceReward):
        return GroupRewardService(asker.service, settings)
    return judge_of_groups(asker.service, settings, spent)
