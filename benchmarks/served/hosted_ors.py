"""Our environment `ors` in a host."""

from contextlib import AsyncExitStack

from benchmarks.served.hosted import Hosted
from benchmarks.served.loop import Step, main
from benchmarks.served.warren_ors import LOOK

from warren_broker.worker.program import loop_factory

hosted = Hosted("warren_env_worker.environments.ors.environment:Ors", "ors", LOOK)


async def opened(stack: AsyncExitStack, url: str, number: int) -> Step:
    return await hosted.episode(stack, number, url=url, environment="vault")


if __name__ == "__main__":
    main(opened, loop_factory())  # of an env worker
