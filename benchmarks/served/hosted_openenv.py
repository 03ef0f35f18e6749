"""Our environment `openenv` in a host."""

from contextlib import AsyncExitStack

from benchmarks.served.hosted import Hosted
from benchmarks.served.loop import Step, main

from warren_broker.worker.program import loop_factory

hosted = Hosted("warren_env_worker.environments.openenv.environment:OpenEnv", "openenv", "0")


async def opened(stack: AsyncExitStack, url: str, number: int) -> Step:
    return await hosted.episode(stack, number, url=f"{url}vault/")


if __name__ == "__main__":
    main(opened, loop_factory())  # of an env worker
