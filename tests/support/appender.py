"""Appends to a stream in the folder of its first argument for ever, to be killed.

Prints each number after it was confirmed.
"""

import asyncio
import sys
from pathlib import Path

from warren_broker.memory import open_memory
from warren_broker.topology import Stream


async def main(folder: Path) -> None:
    stream = Stream("log")
    async with open_memory(folder) as broker:
        await broker.declare(stream)
        number = 0
        while True:
            numbers = range(number, number + 10)
            number += 10
            await asyncio.gather(
                *(broker.publish(stream, b"%d" % n, message_id=f"{n}") for n in numbers)
            )
            print(*numbers, sep="\n", flush=True)


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1])))
