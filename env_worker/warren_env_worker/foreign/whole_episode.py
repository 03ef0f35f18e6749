"""A foreign program that plays a whole episode at one request, and calls the model meanwhile.

Invariant: its process ends with the request, however that ends.
"""

from collections.abc import Mapping
from typing import Any

from warren.environment import ConfigError
from warren_env_worker.foreign.conversation import Conversation
from warren_env_worker.foreign.episode import PackageFailed
from warren_env_worker.foreign.package import Package


async def answer_of(package: Package, made: Mapping[str, object], asked: object) -> dict[str, Any]:
    """`made` is what the program's `make` gets, and `asked` its `step`. Raises `ConfigError`, `PackageFailed`,
    `ProcessLost`."""
    conversation = await package.episode()
    try:
        await _answered(conversation, {"make": made})
        return await _answered(conversation, {"step": asked})
    finally:
        conversation.close()


async def _answered(conversation: Conversation, request: Mapping[str, object]) -> dict[str, Any]:
    answer = await conversation.ask(request)
    if "error" in answer:
        raise (ConfigError if answer["misfit"] else PackageFailed)(answer["error"])
    return answer
