"""Values of environment methods, which may be plain or awaitable."""

import inspect
from collections.abc import Awaitable, Callable
from typing import Any

from warren.environment import StepResult


def then(
    value: Any, follow: Callable[[Any], StepResult | Awaitable[StepResult]]
) -> StepResult | Awaitable[StepResult]:
    """`follow` of the value, now or when it is there."""
    return _later(value, follow) if inspect.isawaitable(value) else follow(value)


async def _later(
    value: Awaitable[Any], follow: Callable[[Any], StepResult | Awaitable[StepResult]]
) -> StepResult:
    result = follow(await value)
    return await result if inspect.isawaitable(result) else result
