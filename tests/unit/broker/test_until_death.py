"""What goes on with a child until it dies ends with whoever is cancelled, also in the moment of the death."""

import asyncio

import pytest
from tests.support.patience import PATIENCE_S

from warren_broker.worker.child import ChildDied
from warren_broker.worker.until_death import until_death


async def test_a_cancellation_in_the_moment_of_a_death_is_heeded() -> None:
    has_begun = asyncio.Event()

    async def receive() -> None:
        has_begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            raise ChildDied("a child", -9)

    async def serve() -> None:
        while True:
            await until_death({"receive": receive()})

    serving = asyncio.create_task(serve())
    await has_begun.wait()
    serving.cancel()
    with pytest.raises(asyncio.CancelledError):
        async with asyncio.timeout(PATIENCE_S):
            await serving


async def test_a_death_ends_the_rest_and_is_told() -> None:
    is_over = asyncio.Event()

    async def send() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            is_over.set()

    async def receive() -> None:
        raise ChildDied("a child", -9)

    assert (await until_death({"send": send(), "receive": receive()})).exit_code == -9
    assert is_over.is_set()
