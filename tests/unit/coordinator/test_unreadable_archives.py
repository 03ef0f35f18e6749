"""Replays of archives that can't be read: tried again, and then failed with the reason; of rows that never can: failed."""

import asyncio
import random
from collections.abc import Iterator
from pathlib import Path
from threading import Semaphore

import pytest
from tests.support.patience import PATIENCE_S
from tests.unit.coordinator.test_replays_of_files import (
    REFERENCE,
    add_dataset,
    archived,
    exported,
    recorded,
)
from tests.unit.coordinator.world import RUN, ReplayWorld

from warren_broker.port import Broker
from warren_gateway.coordinator.mailbox import Mailbox
from warren_gateway.coordinator.replaying.counted import Counted
from warren_gateway.coordinator.replaying.files import (
    Files,
    RecordingUnavailable,
    RecordingWrong,
    UploadedRows,
    no_archive,
)
from warren_gateway.coordinator.replaying.reader import RecordingSources, play
from warren_gateway.coordinator.state.recorded import Message
from warren_gateway.datasets.row_file import RowFile
from warren_schemas.config import ArchiveFormat
from warren_schemas.events import RunState
from warren_schemas.ids import RunId

DENIED = f"the archive of {RUN} can't be used: PermissionError: denied"


class Torn:
    """The first message comes, and nothing after it."""

    def __init__(self, files: Files) -> None:
        self._files = files

    def is_whole(self) -> bool:
        return True

    def messages(self, start: int) -> Iterator[Message]:
        yield next(self._files.messages(start))
        raise RecordingUnavailable(DENIED)


def replay() -> ReplayWorld:
    source = {"from_archive": True}
    return ReplayWorld.of(recorded("jsonl"), random.Random(9), source=source)


async def never(work: object) -> Counted | None:
    raise AssertionError(work)


async def test_an_archive_that_failed_is_read_on_from_where_it_was(
    broker: Broker, tmp_path: Path
) -> None:
    world = replay()
    readings, mailbox = world.source.readings, Mailbox()
    files = archived(recorded("jsonl"), "jsonl", tmp_path)
    left = [files, Torn(files), None]

    def opened(run: RunId, form: ArchiveFormat) -> Files:
        if (found := left.pop()) is None:
            raise RecordingUnavailable(DENIED)
        return found

    sources = RecordingSources(broker, never, opened, {})
    troubles: list[str | None] = []
    async with asyncio.timeout(PATIENCE_S), asyncio.TaskGroup() as tasks:
        playing = tasks.create_task(play(readings, sources, mailbox))
        offsets: list[int] = []
        while len(offsets) < 3:
            mailbox.ask_for_recorded()
            message = (await mailbox.take(PATIENCE_S)).recorded
            assert message is not None
            troubles.append(readings.recording.trouble)
            readings.recording.take(message)
            offsets.append(message.offset)
        playing.cancel()
    assert offsets == [m.offset for m in files.messages(0)][:3]
    assert troubles == [DENIED, DENIED, None]


class Unfinished:
    """What it lacks never comes."""

    def __init__(self) -> None:
        self.looks = Semaphore(0)

    def is_whole(self) -> bool:
        self.looks.release()
        return False

    def messages(self, start: int) -> Iterator[Message]:
        raise AssertionError(start)


async def test_why_an_archive_could_not_be_read_is_forgotten_once_it_can(broker: Broker) -> None:
    world, unfinished = replay(), Unfinished()
    recording = world.source.recording
    failures = [RecordingUnavailable(DENIED)]

    def opened(run: RunId, form: ArchiveFormat) -> Files:
        if failures:
            raise failures.pop()
        return unfinished

    sources = RecordingSources(broker, never, opened, {})
    async with asyncio.timeout(PATIENCE_S), asyncio.TaskGroup() as tasks:
        playing = tasks.create_task(play(world.source.readings, sources, Mailbox()))
        for _ in range(2):
            assert await asyncio.to_thread(unfinished.looks.acquire, timeout=PATIENCE_S)
        playing.cancel()
    assert recording.trouble is None


def test_an_archive_that_can_never_be_read_ends_the_replay_with_the_reason() -> None:
    world = replay()
    world.source.recording.trouble = DENIED
    world.n_visible = 0
    for _ in range(200):
        world.now_s += 1.0
        world.move()
    assert world.state.run_state is RunState.FAILED
    reason = "replay it once it can be read, or without source.from_archive"
    assert world.error == f"{DENIED}; {reason}"


@pytest.mark.parametrize(
    ("line", "reason"),
    [(b"{torn", "unexpected character"), (b'{"run": "run_1"}', "offset: missing")],
)
async def test_a_row_that_can_t_be_replayed_ends_the_replay_with_its_line(
    broker: Broker, tmp_path: Path, line: bytes, reason: str
) -> None:
    """It was checked when it was uploaded, maybe by another Warren, and disks forget."""
    played = recorded("jsonl")
    file = exported(played, "jsonl", tmp_path)
    add_dataset(played, UploadedRows(file))
    lines = (tmp_path / "train.jsonl").read_bytes().splitlines()
    lines[20] = line
    (path := tmp_path / "damaged.jsonl").write_bytes(b"\n".join(lines) + b"\n")
    source = {"run": None, "dataset": REFERENCE}
    world = ReplayWorld.of(played, random.Random(9), source=source)
    recording = world.source.recording
    with pytest.raises(RecordingWrong, match="line 21 can't be replayed"):
        list(UploadedRows(RowFile(path)).messages(0))
    mailbox = Mailbox()
    sources = RecordingSources(broker, never, no_archive, {REFERENCE: {"train": RowFile(path)}})
    async with asyncio.timeout(PATIENCE_S), asyncio.TaskGroup() as tasks:
        playing = tasks.create_task(play(world.source.readings, sources, mailbox))
        mailbox.ask_for_recorded()
        assert (await mailbox.take(PATIENCE_S)).recorded is not None
        assert recording.wrong is None
        mailbox.ask_for_recorded()
        await mailbox.take(PATIENCE_S)
        playing.cancel()
    world.decide()
    assert world.state.run_state is RunState.FAILED
    assert (world.error or "").startswith(f"{REFERENCE}: line 21 can't be replayed: ")
    assert reason in (world.error or "")
