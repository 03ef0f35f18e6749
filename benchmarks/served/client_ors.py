"""The client of ors-sdk, in the environment of `ors.txt`."""

from contextlib import AsyncExitStack
from functools import cache, partial
from importlib import import_module
from typing import Any

from benchmarks.served.loop import Step, main

ors: Any = import_module("ors.client")  # untyped here: it is not in our environment


@cache
def client(url: str) -> Any:
    """One for all sessions, as it is made for."""
    return ors.AsyncORS(base_url=url)


async def opened(stack: AsyncExitStack, url: str, number: int) -> Step:
    vault = client(url).environment("vault")
    (task,) = await vault.get_task_range("train", number % 20, number % 20 + 1)
    session = await stack.enter_async_context(vault.session(task=task))
    await session.get_prompt()
    return partial(session.call_tool, "look", {"place": 0})


if __name__ == "__main__":
    main(opened)
