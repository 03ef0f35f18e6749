"""`python -m tests.support.foreign_owner PROGRAM`: plays an episode of the program, in the place of GEM, until its standard input ends."""

import asyncio
import sys

from warren_env_worker.foreign.package import Package


async def main() -> None:
    conversation = await Package("gem", sys.argv[1]).episode()
    await conversation.ask({"make": {}})
    print("begun", flush=True)
    await asyncio.to_thread(sys.stdin.read)


if __name__ == "__main__":
    asyncio.run(main())
