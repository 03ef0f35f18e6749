"""A supervisor with one child, to be killed: prints its child's pid and waits."""

import asyncio

from warren_broker.worker.child import Child


async def main() -> None:
    child = await Child.spawn("child", "tests.support.obedient_child")
    await child.send(b"echo ready")
    await child.receive()
    print(child.pid, flush=True)
    await child.receive()


if __name__ == "__main__":
    asyncio.run(main())
