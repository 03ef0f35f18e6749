"""The reader of a recording: follows another run's stream for the actor of a replay.

It hands over one message at a time, when the actor asks, so that a replay holds no more of a
recording than the next step needs, and not before the run that recorded it has decided what counted of
it; and it tells when that run may have ended.
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Sequence
from functools import partial

from sqlmodel import Session

from warren_broker.inbox import Claim, follow
from warren_broker.port import Broker
from warren_broker.topology import run_events
from warren_gateway.coordinator.mailbox import Mailbox
from warren_gateway.coordinator.replaying.counted import Counted, counted_places
from warren_gateway.coordinator.replaying.recording import Recording
from warren_gateway.until_first import until_first
from warren_schemas.episode import EpisodeEnded
from warren_schemas.events import RunEvent, StateChanged

PREFETCH = 2
"""Messages on their way while one is being consumed."""


LOOK_S = 1.0
"""How often a recorder is looked at that says nothing and has not decided yet."""

Transact = Callable[[Callable[[Session], Counted | None]], Awaitable[Counted | None]]


async def play(
    recordings: Sequence[Recording], broker: Broker, mailbox: Mailbox, transact: Transact
) -> None:
    """One after the other; never returns."""
    for recording in recordings:
        playing = _play(recording, broker, mailbox, transact)
        await until_first(playing, mailbox.until_read(recording.run))


async def _play(recording: Recording, broker: Broker, mailbox: Mailbox, transact: Transact) -> None:
    """Never returns."""
    news = asyncio.Event()
    reading = _read(recording, broker, mailbox, partial(_decided, recording, transact, news))
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(reading, name=f"recording {recording.run}")
        tasks.create_task(
            _watch(recording, broker, mailbox, news), name=f"recorder {recording.run}"
        )


async def _read(
    recording: Recording,
    broker: Broker,
    mailbox: Mailbox,
    decided: "Callable[[Sequence[Claim[EpisodeEnded]]], Awaitable[Counted]]",
) -> None:
    start = recording.read_from
    async with follow(
        broker, recording.stream, EpisodeEnded, start=start, prefetch=PREFETCH
    ) as inbox:
        async for claims in inbox:
            await mailbox.put_recorded(recording.run, claims, await decided(claims))


async def _decided(
    recording: Recording,
    transact: Transact,
    news: asyncio.Event,
    claims: "Sequence[Claim[EpisodeEnded]]",
) -> Counted:
    """What counted of this message, once the recorder knows."""
    items, offset = [claim.item for claim in claims], claims[0].offset or 0
    while True:
        news.clear()
        counted = await transact(lambda s: counted_places(s, recording.run, items, offset))
        if counted is not None:
            return counted
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(LOOK_S):
                await news.wait()


async def _watch(
    recording: Recording, broker: Broker, mailbox: Mailbox, news: asyncio.Event
) -> None:
    """Wake the actor once we would hear of the recorder's end, and when we hear of it."""
    async with follow(broker, run_events(recording.run), RunEvent, start="next") as inbox:
        mailbox.wake(is_recorder_changed=True)
        async for claims in inbox:
            news.set()
            if any(_is_end(claim.item) for claim in claims):
                mailbox.wake(is_recorder_changed=True)
            for claim in claims:
                claim.done()


def _is_end(event: RunEvent) -> bool:
    return isinstance(event.body, StateChanged) and event.body.state.is_final
