"""Acks of one channel, sent together.

A quorum queue writes every ack to disk, next to the messages that others wait for. So acks wait for
each other, `LINGER_S` at most, and leave as few frames as they can: one for all below the lowest
message that is still in somebody's hands, one for each beyond it.

Invariants:
- No frame covers a message that is in somebody's hands: what was nacked leaves `_in_hand` only after
  its nack was sent.
- An ack waits only while its process lives; a process that dies gets the message again, as ever.
"""

import asyncio
from collections.abc import Sequence

from aiormq.abc import AbstractChannel as Frames

from warren_broker.rabbitmq.connection.failures import settle

LINGER_S = 0.02
MAX_WAITING = 64


def packed(waiting: Sequence[int], lowest_in_hand: int | None) -> list[tuple[int, bool]]:
    """The fewest acks for these tags: each a tag, and whether it stands for all before it too."""
    below = [tag for tag in waiting if lowest_in_hand is None or tag < lowest_in_hand]
    beyond = [tag for tag in waiting if lowest_in_hand is not None and tag > lowest_in_hand]
    return [(tag, True) for tag in sorted(below)[-1:]] + [(tag, False) for tag in beyond]


class Acks:
    def __init__(self, frames: Frames, *, max_waiting: int) -> None:
        self.frames = frames
        self._max_waiting = max(1, min(MAX_WAITING, max_waiting))
        self._in_hand: dict[int, None] = {}
        """Tags in the order of delivery, which is rising."""
        self._waiting: list[int] = []
        self._timer: asyncio.TimerHandle | None = None
        self._sending: set[asyncio.Task[None]] = set()

    def delivered(self, tag: int) -> None:
        self._in_hand[tag] = None

    def returned(self, tag: int) -> None:
        """Its nack was sent."""
        self._in_hand.pop(tag, None)

    def add(self, tag: int) -> None:
        """Ack this message, soon."""
        del self._in_hand[tag]
        self._waiting.append(tag)
        if len(self._waiting) >= self._max_waiting:
            self._depart()
        elif self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(LINGER_S, self._depart)

    async def hurry(self) -> None:
        """Send what waits, and from now on each ack at once."""
        self._max_waiting = 1
        if self._waiting:
            self._depart()
        if self._sending:
            await asyncio.wait(self._sending)

    def _depart(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        lowest = next(iter(self._in_hand), None)
        task = asyncio.create_task(self._send(packed(self._waiting, lowest)), name="acks")
        self._waiting.clear()
        self._sending.add(task)
        task.add_done_callback(self._sending.discard)

    async def _send(self, frames: list[tuple[int, bool]]) -> None:
        for tag, is_for_all_before in frames:
            await settle(self.frames.basic_ack(tag, multiple=is_for_all_before, wait=False))
