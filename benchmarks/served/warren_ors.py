"""Our environment `ors`."""

from contextlib import AsyncExitStack
from functools import partial

from benchmarks.served.loop import Step, main

from warren.environment import Context
from warren_env_worker.environments.ors.environment import Ors

LOOK = '<tool_call>{"name": "look", "arguments": {"place": 0}}</tool_call>'


async def opened(stack: AsyncExitStack, url: str, number: int) -> Step:
    environment = Ors(url, "vault")
    stack.push_async_callback(environment.close)
    await environment.reset(number % 20, Context.derive(0, index=number))
    return partial(environment.step, LOOK)


if __name__ == "__main__":
    main(opened)
