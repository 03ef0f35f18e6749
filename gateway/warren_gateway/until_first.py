"""Runs coroutines concurrently until the first one ends."""

import asyncio
from collections.abc import Coroutine
from typing import Any


async def until_first(*coroutines: Coroutine[Any, Any, object]) -> None:
    """Run all until one ends; end the others, and raise what the ended one raised."""
    tasks = [asyncio.create_task(each, name=each.__qualname__) for each in coroutines]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
