"""The metrics consumer: every run is followed, also across restarts and failures."""

import asyncio
import logging
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import pytest
from sqlalchemy import update
from sqlmodel import Session
from tests.support.gateway import Gateway, ended, step
from tests.support.patience import PATIENCE_S
from tests.unit.gateway.metrics.test_recorder import read_back

from warren_gateway.metrics import consumer
from warren_gateway.metrics.consumer import Metrics
from warren_gateway.metrics.journal import JOURNAL, is_complete
from warren_gateway.metrics.recorder import Recorder
from warren_gateway.store.tables import Run
from warren_schemas.events import RunEvent, RunState
from warren_schemas.tensorboard.about import About, folder_name


class Recorded:
    """Makes recorders, and is woken whenever one has recorded a message."""

    def __init__(self) -> None:
        self.n = 0
        self._change = asyncio.Event()
        self._loop = asyncio.get_running_loop()

    def recorder(self, runs_dir: Path, about: About) -> Recorder:
        tell = partial(self._loop.call_soon_threadsafe, self.note)

        class NotingRecorder(Recorder):
            def record(self, offset: int, events: Sequence[RunEvent]) -> None:
                super().record(offset, events)
                tell()

        return NotingRecorder(runs_dir, about)

    def note(self) -> None:
        self.n += 1
        self._change.set()

    async def until(self, n: int) -> None:
        async with asyncio.timeout(PATIENCE_S):
            while self.n < n:
                self._change.clear()
                await self._change.wait()


@pytest.fixture
async def recorded() -> Recorded:
    return Recorded()


async def test_runs_are_followed_from_their_submission_to_their_end(
    gateway: Gateway, recorded: Recorded, tmp_path: Path
) -> None:
    async with _running(gateway, tmp_path, recorded) as metrics:
        runs = [await gateway.submit() for _ in range(2)]
        for run in runs:
            metrics.notify(run)
            metrics.notify(run)
            await gateway.tell(run, step(1, reward_mean=0.5), step(2, reward_mean=0.75))
            await gateway.tell(run, ended())
        await recorded.until(4)
    for run in runs:
        assert read_back(tmp_path / folder_name("guessing", run)) == {
            "1_reward/mean": [(1, 0.5), (2, 0.75)]
        }
        assert is_complete(tmp_path / folder_name("guessing", run) / JOURNAL)


async def test_a_restart_neither_loses_nor_doubles(
    gateway: Gateway, recorded: Recorded, tmp_path: Path
) -> None:
    run = await gateway.submit()
    await _enter(gateway, RunState.RUNNING)
    await gateway.tell(run, step(1, reward_mean=0.1))
    async with _running(gateway, tmp_path, recorded):  # finds the run by itself: it has not ended
        await recorded.until(1)
    await gateway.tell(run, step(2, reward_mean=0.2))
    async with _running(gateway, tmp_path, recorded):
        await recorded.until(3)  # the last message recorded is read again
    await gateway.tell(run, step(3, reward_mean=0.3), ended())
    await _enter(gateway, RunState.COMPLETED)
    async with _running(gateway, tmp_path, recorded):  # it ended while nobody recorded
        await recorded.until(5)
    assert read_back(tmp_path / folder_name("guessing", run)) == {
        "1_reward/mean": [(1, 0.1), (2, 0.2), (3, 0.3)]
    }


async def test_of_queued_runs_nobody_reads_until_somebody_drives_them(
    gateway: Gateway, recorded: Recorded, tmp_path: Path
) -> None:
    queued = await gateway.submit()
    await gateway.tell(queued, step(1, reward_mean=0.1))
    driven = await gateway.submit()
    await gateway.tell(driven, step(1, reward_mean=0.2))
    async with _running(gateway, tmp_path, recorded) as metrics:
        metrics.notify(driven)
        await recorded.until(1)
        assert not (tmp_path / folder_name("guessing", queued)).exists()
        metrics.notify(queued)
        await recorded.until(2)
    assert (tmp_path / folder_name("guessing", queued)).exists()


async def test_a_disk_that_is_full_costs_time_only(
    gateway: Gateway, recorded: Recorded, tmp_path: Path
) -> None:
    (tmp_path / "runs").write_text("a file where the folder should be")
    run = await gateway.submit()
    await _enter(gateway, RunState.RUNNING)
    await gateway.tell(run, step(1, reward_mean=0.5))
    async with _running(gateway, tmp_path / "runs", recorded):
        async with _logged(run) as retried, asyncio.timeout(PATIENCE_S):
            await retried.wait()
        (tmp_path / "runs").unlink()
        await recorded.until(1)
    assert read_back(tmp_path / "runs" / folder_name("guessing", run)) == {
        "1_reward/mean": [(1, 0.5)]
    }


async def test_a_journal_that_can_not_be_read_ends_only_its_own_run(
    gateway: Gateway, recorded: Recorded, tmp_path: Path
) -> None:
    bad, good = [await gateway.submit() for _ in range(2)]
    await _enter(gateway, RunState.RUNNING)
    folder = tmp_path / folder_name("guessing", bad)
    folder.mkdir()
    (folder / JOURNAL).write_text("nonsense\n")
    await gateway.tell(good, step(1, reward_mean=0.5))
    async with (
        _logged(f"metrics of {bad} are recorded no more") as logged,
        _running(gateway, tmp_path, recorded),
        asyncio.timeout(PATIENCE_S),
    ):
        await logged.wait()
        await recorded.until(1)
    assert read_back(tmp_path / folder_name("guessing", good)) == {"1_reward/mean": [(1, 0.5)]}


@asynccontextmanager
async def _running(gateway: Gateway, runs_dir: Path, recorded: Recorded) -> AsyncGenerator[Metrics]:
    make, broker = recorded.recorder, gateway.broker
    metrics = Metrics(gateway.store, broker, runs_dir, make_recorder=make, retry_s=0.01)
    running = asyncio.create_task(metrics.run())
    try:
        yield metrics
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


async def _enter(gateway: Gateway, state: RunState) -> None:
    def change(session: Session) -> None:
        session.exec(update(Run).values(state=state))

    await gateway.store.transact(change)


@asynccontextmanager
async def _logged(words: str) -> AsyncGenerator[asyncio.Event]:
    """Set when the consumer logs these words."""
    logged = asyncio.Event()

    class Listener(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            if words in record.getMessage():
                logged.set()

    log, listener = logging.getLogger(consumer.__name__), Listener()
    log.addHandler(listener)
    try:
        yield logged
    finally:
        log.removeHandler(listener)
