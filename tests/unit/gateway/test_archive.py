"""The archive: every trajectory once, whole files, and the same ones whoever writes them."""

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from importlib import import_module
from pathlib import Path
from typing import Any, Literal

import pytest
from tests.support.factories import make_envelope, make_episode_ended, make_spec
from tests.support.gateway import CONFIG, Gateway, ended, step
from tests.support.patience import PATIENCE_S
from tests.support.recorded import decided
from tests.support.recorded import has_read as note_read

from warren_broker.topology import trajectories
from warren_gateway.archive.folder import COMPLETE, INCOMPLETE
from warren_gateway.archive.service import Archive
from warren_gateway.position import Position
from warren_schemas.codec.wire import encode
from warren_schemas.exports.files import ParquetFile
from warren_schemas.ids import GroupId, RunId, new_message_id


@asynccontextmanager
async def archiving(gateway: Gateway, folder: Path, *runs: RunId) -> AsyncGenerator[None]:
    """In parts of four messages."""
    recordings, broker = gateway.services.recordings, gateway.broker
    archive = Archive(recordings, broker, folder.as_uri(), part_messages=4, retry_s=0.01)
    for run in runs:
        archive.notify(run)
    task = asyncio.create_task(archive.run())
    yield
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def submitted(gateway: Gateway, form: Literal["jsonl", "parquet"]) -> RunId:
    return await gateway.submit(config={**CONFIG, "retention": {"archive": form}})


async def record(gateway: Gateway, run: RunId, numbers: range) -> None:
    """One message of two trajectories for each number, and a copy of one; the run has read them all."""
    for number in numbers:
        group = GroupId(f"{run}-{number}")
        items = [
            make_episode_ended(
                envelope=make_envelope(run=run),
                spec=make_spec(group=group, member=member, seed=number),
            )
            for member in (0, 1, 1)
        ]
        await decided(gateway, run, group, [Position(number), Position(number, 1)])
        await gateway.broker.publish(trajectories(run), encode(items), message_id=new_message_id())
    await has_read(gateway, run, numbers.stop)


async def has_read(gateway: Gateway, run: RunId, offset: int, state: str = "running") -> None:
    await note_read(gateway, run, offset, state)
    await gateway.tell(run, ended() if state == "completed" else step(1))


async def complete(folder: Path, run: RunId) -> None:
    """Return when the run's archive is."""
    await is_there(folder / run, COMPLETE)


async def is_there(folder: Path, name: str) -> None:
    """Nothing tells of a file."""
    async with asyncio.timeout(PATIENCE_S):
        while not (folder / name).exists():  # noqa: ASYNC110
            await asyncio.sleep(0.05)


def seeds_in(folder: Path, run: RunId) -> dict[str, list[int]]:
    """Which messages each file holds."""
    arrow: Any = import_module("pyarrow")
    found: dict[str, list[int]] = {}
    for path in sorted((folder / run).glob("[0-9]*")):
        if path.suffix == ".parquet":
            found[path.name] = [int(str(row["seed"])) for row in ParquetFile.read(path)]
        else:
            with arrow.input_stream(str(path), compression="zstd") as file:
                lines = file.read().splitlines()
            found[path.name] = [json.loads(line)["seed"] for line in lines]
    return found


@pytest.mark.parametrize("form", ["jsonl", "parquet"])
async def test_every_trajectory_is_archived_once(
    gateway: Gateway, tmp_path: Path, form: Literal["jsonl", "parquet"]
) -> None:
    run = await submitted(gateway, form)
    folder = tmp_path / "archive"
    async with archiving(gateway, folder, run):
        await record(gateway, run, range(6))
        await record(gateway, run, range(6, 10))
        await has_read(gateway, run, 10, "completed")
        await complete(folder, run)
    ending = "parquet" if form == "parquet" else "jsonl.zst"
    assert seeds_in(folder, run) == {
        f"{first:012d}.{ending}": [n for n in range(first, min(first + 4, 10)) for _ in range(2)]
        for first in (0, 4, 8)
    }


async def test_an_archivist_that_starts_over_goes_on_behind_what_is_there(
    gateway: Gateway, tmp_path: Path
) -> None:
    run = await submitted(gateway, "jsonl")
    folder, whole = tmp_path / "archive", tmp_path / "whole"
    await record(gateway, run, range(5))
    await has_read(gateway, run, 5)
    first_part = folder / run / f"{0:012d}.jsonl.zst"
    async with archiving(gateway, folder, run):
        await is_there(folder / run, first_part.name)
    before = first_part.stat().st_mtime_ns
    await record(gateway, run, range(5, 9))
    await has_read(gateway, run, 9, "completed")
    async with archiving(gateway, folder):  # finds the run by itself
        await complete(folder, run)
    async with archiving(gateway, whole, run):
        await complete(whole, run)
    assert seeds_in(folder, run) == seeds_in(whole, run)
    assert first_part.stat().st_mtime_ns == before


async def test_what_the_stream_has_lost_is_told_in_the_end(
    gateway: Gateway, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Also by an archivist that starts over in the middle of it."""
    retention = {"archive": "jsonl", "size_bytes": 16_000_000}
    run = await gateway.submit(config={**CONFIG, "retention": retention})
    await record(gateway, run, range(6))
    for _ in range(4):  # unreadable, and so long that everything before the last three is dropped
        await gateway.broker.publish(
            trajectories(run), b"x" * 5_000_000, message_id=new_message_id()
        )
    await record(gateway, run, range(10, 13))
    async with archiving(gateway, tmp_path, run):
        await is_there(tmp_path / run, f"{4:012d}.jsonl.zst")
    assert caplog.text.count(f"messages 0 to 9 of the trajectories of {run} are missing") == 1
    await has_read(gateway, run, 13, "completed")
    async with archiving(gateway, tmp_path, run):
        await is_there(tmp_path / run, INCOMPLETE)
    assert (tmp_path / run / INCOMPLETE).read_text() == "0-9\n"
    assert list(seeds_in(tmp_path, run).values()) == [[], [], [10, 10, 11, 11], [12, 12]]
    assert not (tmp_path / run / COMPLETE).exists()


async def test_an_object_store_that_is_away_costs_time_only(
    gateway: Gateway, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files: Any = import_module("fsspec.implementations.local").LocalFileSystem
    put = files.put_file

    def put_file(*_: object, **__: object) -> None:
        monkeypatch.setattr(files, "put_file", put)
        raise LookupError("no such endpoint")

    monkeypatch.setattr(files, "put_file", put_file)
    run = await submitted(gateway, "jsonl")
    await record(gateway, run, range(2))
    await has_read(gateway, run, 2, "completed")
    async with archiving(gateway, tmp_path, run):
        await complete(tmp_path, run)
    assert list(seeds_in(tmp_path, run).values()) == [[0, 0, 1, 1]]


async def test_a_run_that_does_not_ask_is_not_archived(gateway: Gateway, tmp_path: Path) -> None:
    asks, not_ = await submitted(gateway, "jsonl"), await gateway.submit()
    for run in (asks, not_):
        await record(gateway, run, range(2))
        await has_read(gateway, run, 2, "completed")
    async with archiving(gateway, tmp_path / "archive", not_, asks):
        await complete(tmp_path / "archive", asks)
    assert not (tmp_path / "archive" / not_).exists()
