"""The reader of a recording: follows another run's stream for the actor of a replay.

It hands over one message at a time, when the actor asks, so that a replay holds no more of a
recording than the next step needs; and it tells when the run that recorded it may have ended.
"""

import asyncio

from warren_broker.inbox import follow
from warren_broker.port import Broker
from warren_broker.topology import run_events
from warren_gateway.coordinator.mailbox import Mailbox
from warren_gateway.coordinator.rollouts.recording import Recording
from warren_schemas.episode import EpisodeEnded
from warren_schemas.events import RunEvent, StateChanged

PREFETCH = 2
"""Messages on their way while one is being consumed."""


async def play(recording: Recording, broker: Broker, mailbox: Mailbox) -> None:
    """Never returns."""
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(_read(recording, broker, mailbox), name=f"recording {recording.run}")
        tasks.create_task(_watch(recording, broker, mailbox), name=f"recorder {recording.run}")


async def _read(recording: Recording, broker: Broker, mailbox: Mailbox) -> None:
    start = recording.read_from
    async with follow(
        broker, recording.stream, EpisodeEnded, start=start, prefetch=PREFETCH
    ) as inbox:
        async for claims in inbox:
            await mailbox.put_recorded(claims)


async def _watch(recording: Recording, broker: Broker, mailbox: Mailbox) -> None:
    """Wake the actor once we would hear of the recorder's end, and when we hear of it."""
    async with follow(broker, run_events(recording.run), RunEvent, start="next") as inbox:
        mailbox.wake(is_recorder_changed=True)
        async for claims in inbox:
            if any(_is_end(claim.item) for claim in claims):
                mailbox.wake(is_recorder_changed=True)
            for claim in claims:
                claim.done()


def _is_end(event: RunEvent) -> bool:
    return isinstance(event.body, StateChanged) and event.body.state.is_final
