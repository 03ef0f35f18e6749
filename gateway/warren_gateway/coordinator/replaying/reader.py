"""The reader of a recording: follows another run's stream, or reads files, for the coordinator of a replay.

It hands over one message at a time, when the coordinator asks, so that a replay holds no more of a
recording than the next step needs, and not before the run that recorded it has decided what counted of
it; and it tells when that run may have ended.
"""

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import partial

from sqlmodel import Session

from warren_broker.inbox import Claim, follow
from warren_broker.port import Broker
from warren_broker.topology import Stream, run_events
from warren_gateway.coordinator.mailbox import Mailbox
from warren_gateway.coordinator.replaying.counted import Counted, counted_places
from warren_gateway.coordinator.replaying.files import (
    Archived,
    Files,
    OpenArchive,
    RecordingUnavailable,
    RecordingWrong,
    Uploaded,
    UploadedRows,
)
from warren_gateway.coordinator.replaying.readings import Readings
from warren_gateway.coordinator.replaying.recording import Recording
from warren_gateway.coordinator.state.group_parts import Reading
from warren_gateway.coordinator.state.recorded import Message
from warren_gateway.coordinator.state.rows import Rows
from warren_gateway.until_first import until_first
from warren_schemas.config import ArchiveFormat
from warren_schemas.episode import EpisodeEnded
from warren_schemas.events import RunEvent, StateChanged

PREFETCH = 2
"""Messages on their way while one is being consumed."""


LOOK_S = 1.0
"""How often a recorder is looked at that says nothing and has not decided yet, and an archive that is not whole, or can't be read."""

log = logging.getLogger(__name__)

Transact = Callable[[Callable[[Session], Counted | None]], Awaitable[Counted | None]]


@dataclass(frozen=True, slots=True)
class RecordingSources:
    """Where recordings are read from."""

    broker: Broker
    transact: Transact
    open_archive: OpenArchive
    rows: Rows
    """Of the run's data sets."""


async def play(readings: Readings, sources: RecordingSources, mailbox: Mailbox) -> None:
    """One after the other; never returns."""
    for reading, recording in readings.left():
        playing = _play(reading, recording, sources, mailbox)
        await until_first(playing, mailbox.until_read(reading))


async def _play(
    reading: Reading, recording: Recording, sources: RecordingSources, mailbox: Mailbox
) -> None:
    """Never returns before all of it is read."""
    match recording.origin:
        case Stream():
            await _play_stream(reading, recording, recording.origin, sources, mailbox)
        case Archived(form):
            await _play_archive(reading, recording, form, sources, mailbox)
        case Uploaded(reference, split):
            if reference in sources.rows:  # else the run is to end, for its data set can't be read
                rows = UploadedRows(sources.rows[reference][split])
                await _read_files(reading, recording, rows, mailbox)
            await mailbox.until_read(reading)


async def _play_archive(
    reading: Reading,
    recording: Recording,
    form: ArchiveFormat,
    sources: RecordingSources,
    mailbox: Mailbox,
) -> None:
    """Tried for as long as the run waits for it: `Recorded.failure` says when that was too long."""
    while True:
        try:
            files = await asyncio.to_thread(sources.open_archive, recording.recorder, form)
            return await _read_files(reading, recording, files, mailbox)
        except RecordingUnavailable as error:
            log.warning("the replay of %s waits: %s", recording.name, error)
            recording.trouble = str(error)
        await asyncio.sleep(LOOK_S)


async def _read_files(
    reading: Reading, recording: Recording, files: Files, mailbox: Mailbox
) -> None:
    while not await asyncio.to_thread(files.is_whole):
        recording.trouble = None
        await asyncio.sleep(LOOK_S)
    start = recording.read_from
    assert isinstance(start, int)
    messages = files.messages(start)
    try:
        while (message := await asyncio.to_thread(next, messages, None)) is not None:
            await mailbox.put_recorded(reading, message)
    except RecordingWrong as error:
        await mailbox.until_asked()  # what stands before it was taken in
        recording.wrong = str(error)
        mailbox.wake()
    else:
        if recording.end_offset:
            await mailbox.put_recorded(reading, Message(recording.end_offset - 1))
    await mailbox.until_read(reading)


async def _play_stream(
    reading: Reading,
    recording: Recording,
    stream: Stream,
    sources: RecordingSources,
    mailbox: Mailbox,
) -> None:
    news, broker = asyncio.Event(), sources.broker
    decided = partial(_decided, recording, sources.transact, news)
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(
            _read(reading, recording, stream, broker, mailbox, decided),
            name=f"recording {recording.name}",
        )
        tasks.create_task(
            _watch(recording, broker, mailbox, news), name=f"recorder {recording.name}"
        )


async def _read(
    reading: Reading,
    recording: Recording,
    stream: Stream,
    broker: Broker,
    mailbox: Mailbox,
    decided: "Callable[[Sequence[Claim[EpisodeEnded]]], Awaitable[Counted]]",
) -> None:
    start = recording.read_from
    async with follow(broker, stream, EpisodeEnded, start=start, prefetch=PREFETCH) as inbox:
        async for claims in inbox:
            items, offset = [claim.item for claim in claims], claims[0].offset or 0
            message = Message.of(items, offset, await decided(claims))
            await mailbox.put_recorded(reading, message, claims)


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
        counted = await transact(lambda s: counted_places(s, recording.recorder, items, offset))
        if counted is not None:
            return counted
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(LOOK_S):
                await news.wait()


async def _watch(
    recording: Recording, broker: Broker, mailbox: Mailbox, news: asyncio.Event
) -> None:
    """Wake the coordinator once we would hear of the recorder's end, and when we hear of it."""
    events = run_events(recording.recorder)
    async with follow(broker, events, RunEvent, start="next") as inbox:
        mailbox.wake(is_recorder_changed=True)
        async for claims in inbox:
            news.set()
            if any(_is_end(claim.item) for claim in claims):
                mailbox.wake(is_recorder_changed=True)
            for claim in claims:
                claim.done()


def _is_end(event: RunEvent) -> bool:
    return isinstance(event.body, StateChanged) and event.body.state.is_final
