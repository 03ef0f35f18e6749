"""The client of openenv, in the environment of `openenv.txt`."""

from contextlib import AsyncExitStack
from functools import partial
from importlib import import_module
from typing import Any

from benchmarks.served.loop import Step, main

openenv: Any = import_module("openenv.core.generic_client")  # untyped: not in our environment


async def opened(stack: AsyncExitStack, url: str, number: int) -> Step:
    client = await stack.enter_async_context(openenv.GenericEnvClient(base_url=f"{url}vault"))
    await client.reset(seed=number)
    return partial(client.step, {"words": "0"})


if __name__ == "__main__":
    main(opened)
