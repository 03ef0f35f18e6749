"""Runs tasks until a child process dies; a cancellation at that moment is not lost."""

import asyncio
from collections.abc import Coroutine, Mapping
from typing import Any

from warren_broker.worker.child import ChildDied


async def until_death(work: Mapping[str, Coroutine[Any, Any, None]]) -> ChildDied:
    """Do all of it, by the names of its tasks, until the child dies; what it died of.

    No `ChildDied` leaves the task group: before Python 3.13 a group that ends by an error of its own drops a
    cancellation that comes meanwhile, and whoever then starts the next child would go on for ever.
    """
    deaths: list[ChildDied] = []
    is_dead = asyncio.Event()

    async def noting(coroutine: Coroutine[Any, Any, None]) -> None:
        try:
            await coroutine
        except ChildDied as death:
            deaths.append(death)
            is_dead.set()

    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(noting(one), name=name) for name, one in work.items()]
        await is_dead.wait()
        for task in tasks:
            task.cancel()
    return deaths[0]
