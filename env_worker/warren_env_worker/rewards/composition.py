"""The reward: the sum of its parts, each times its weight.

Invariant: it is the sum of all parts or none: when one fails, so does the whole.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from functools import cache

from warren_env_worker.background_loop import background_loop
from warren_env_worker.reach.reach import Reach, current
from warren_env_worker.rewards.clients import Asker, RewardClients
from warren_env_worker.rewards.code import RewardCode
from warren_env_worker.rewards.function import RewardFunction
from warren_env_worker.rewards.scored import Scored
from warren_env_worker.rewards.settings import CodeReward, FunctionReward, OwnReward, Reward

_clients = RewardClients()
"""Of the background loop."""

Score = Callable[[Scored], Awaitable[float]]


class Composition:
    def __init__(self, parts: Sequence[Reward]) -> None:
        """Raises `ConfigError` for functions that are not there, and for what may not be reached."""
        reach = current()
        self._parts = [
            (_name(part, n), part.weight, _score_of(part, reach)) for n, part in enumerate(parts)
        ]

    async def score(self, scored: Scored) -> tuple[float, dict[str, float]]:
        """The reward, and what each part gave before its weight. Raises `RewardFailed`."""
        values = await asyncio.gather(*(score(scored) for _, _, score in self._parts))
        total = sum(
            weight * value for (_, weight, _), value in zip(self._parts, values, strict=True)
        )
        names = (f"reward/{name}" for name, _, _ in self._parts)
        return total, dict(zip(names, values, strict=True))


def _name(part: Reward, number: int) -> str:
    if part.name is not None:
        return part.name
    if isinstance(part, OwnReward):
        return "own"
    if isinstance(part, FunctionReward):
        return part.function.rpartition(":")[2]
    return f"{part.kind}{number}"


def _score_of(part: Reward, reach: Reach) -> Score:
    if isinstance(part, OwnReward):
        return _own
    if isinstance(part, FunctionReward):
        return _function(*reach.function(part.function))
    if isinstance(part, CodeReward):
        return RewardCode(part, reach)
    service = reach.service(part.url, part.key_variable)
    asker = Asker(reach.owner, service, part.model_dump_json())

    async def ask(scored: Scored) -> float:
        return await background_loop().call(_clients.score(asker, scored))

    return ask


async def _own(scored: Scored) -> float:
    return scored.own_reward


@cache
def _function(path: str, is_own: bool) -> RewardFunction:
    return RewardFunction(path, is_own=is_own)
