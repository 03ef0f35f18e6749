"""Going through the queue `dead`, oldest first, without taking anything out of it.

Letters come by windows: a consumer with that many of them as its prefetch is cancelled when they are here. They stay
unsettled on the channel, so the next consumer gets those behind them. Asking for them one by one (`basic.get`) waits
for the queue's log each time: 3,000 letters took 26 s, and take less than 1 s by windows of 32.

Invariants: the bodies of one window are in memory, no more; after large ones a window is one letter. What
was taken is unsettled until `put_back`, or until the channel closes.
"""

import asyncio
import contextlib
from collections import deque
from collections.abc import AsyncGenerator

from aio_pika.abc import AbstractChannel
from aiormq.abc import AbstractChannel as Frames
from aiormq.abc import DeliveredMessage

from warren_broker.backoff import pauses
from warren_broker.rabbitmq.entities.declare_calls import inspect

MOST_AT_ONCE = 64
SMALL_BYTES = 512 * 1024
"""Of all letters of a window; the next one is larger only after one that had less."""
COME_S = 0.5
"""A window that nothing comes for any more is not filled: somebody else holds those letters."""
PUT_BACK_S = 1.0


class Walk:
    """One walk on a channel of its own."""

    def __init__(self, channel: AbstractChannel, frames: Frames, queue: str) -> None:
        self._channel = channel
        self._frames = frames
        self._queue = queue
        self._n_held = 0
        self._prefetch = 0

    async def letters(self, limit: int) -> AsyncGenerator[DeliveredMessage]:
        n_left, n_waiting, size = limit, await self._n_waiting(), 1
        while n_wanted := min(size, n_left, n_waiting):
            window = await self._window(n_wanted)
            n_left -= len(window)
            n_waiting -= len(window)
            if len(window) < n_wanted or not n_waiting:
                n_waiting = await self._n_waiting()
            is_small = sum(len(message.body) for message in window) < SMALL_BYTES
            size = min(2 * size, MOST_AT_ONCE) if is_small else 1
            while window:
                yield window.popleft()

    async def take_out(self, message: DeliveredMessage) -> None:
        self._n_held -= 1
        await self._frames.basic_ack(message.delivery_tag or 0, wait=False)

    async def put_back(self) -> None:
        """Put back all that was not taken out, and see it back: nobody counts too few.

        Closing the channel would do it too, some time later.
        """
        if not self._n_held:
            return
        await self._frames.basic_nack(0, multiple=True, requeue=True)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(PUT_BACK_S):
                for pause_s in pauses(first_s=0.002):
                    if await self._n_waiting() >= self._n_held:
                        return
                    await asyncio.sleep(pause_s)

    async def _window(self, n_wanted: int) -> deque[DeliveredMessage]:
        """So many letters, or fewer where no more come; they are held."""
        arrived: asyncio.Queue[DeliveredMessage] = asyncio.Queue()

        async def take(message: DeliveredMessage) -> None:
            arrived.put_nowait(message)

        if n_wanted != self._prefetch:
            await self._frames.basic_qos(prefetch_count=n_wanted)
            self._prefetch = n_wanted
        consuming = await self._frames.basic_consume(self._queue, take)
        window = deque[DeliveredMessage]()
        while len(window) < n_wanted and (message := await _next(arrived)):
            window.append(message)
        await self._cancel(str(consuming.consumer_tag), is_full=len(window) == n_wanted)
        while not arrived.empty():
            window.append(arrived.get_nowait())
        self._n_held += len(window)
        return window

    async def _cancel(self, consumer: str, *, is_full: bool) -> None:
        """A full one gets nothing more: nobody needs to hear that it is gone."""
        if is_full:
            await self._frames.basic_cancel(consumer, nowait=True)
        else:
            await self._frames.basic_cancel(consumer)

    async def _n_waiting(self) -> int:
        found = await inspect(self._channel, self._queue)
        return found.message_count or 0 if found else 0


async def _next(arrived: asyncio.Queue[DeliveredMessage]) -> DeliveredMessage | None:
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(COME_S):
            return await arrived.get()
    return None
