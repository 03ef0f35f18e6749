"""Our environment `openenv`."""

from contextlib import AsyncExitStack
from functools import partial

from benchmarks.served.loop import Step, main

from warren.environment import Context
from warren_env_worker.environments.openenv.environment import OpenEnv


async def opened(stack: AsyncExitStack, url: str, number: int) -> Step:
    environment = OpenEnv(f"{url}vault/")
    stack.push_async_callback(environment.close)
    await environment.reset(None, Context.derive(0, index=number))
    return partial(environment.step, "0")


if __name__ == "__main__":
    main(opened)
