"""Replays of archives and of exports: the ops, and so the weights, of a replay of the stream.

A world plays a run, with failures, duplicates and lost episodes; what it wrote is archived and exported by the code
that gateways and clients use, and replayed from there.
"""

import random
from collections import defaultdict
from functools import cache
from pathlib import Path
from typing import Any, cast

import orjson
import pytest
from sqlmodel import Session
from tests.unit.coordinator.test_filtered_recordings import trained_groups
from tests.unit.coordinator.test_recording import SFT, ops_of
from tests.unit.coordinator.world import RUN, ReplayWorld, World, config

from warren.datasets.sources import lines
from warren_gateway.archive.folder import Folder
from warren_gateway.archive.reading import ArchivedRun
from warren_gateway.coordinator.replaying.files import ROWS_AT_ONCE, Files, UploadedRows
from warren_gateway.datasets.row_file import RowFile
from warren_gateway.position import Position
from warren_gateway.recordings.fates import counts, fates_of
from warren_gateway.store.tables import DatasetRow, Run
from warren_schemas.config import ArchiveFormat
from warren_schemas.events import RunState
from warren_schemas.exports.files import JsonLinesFile, ParquetFile
from warren_schemas.http import DatasetSplit, TrajectoryView

SHA256 = "5" * 64
REFERENCE = f"me/monday@{SHA256}"


@cache
def recorded(form: ArchiveFormat, *, failure_rate: float = 0.1) -> World:
    found = config(sft=SFT, retention={"archive": form})
    world = World(found, random.Random(11), failure_rate=failure_rate)
    world.drive(0.01)
    assert world.state.run_state is RunState.COMPLETED
    return world


def views(world: World) -> list[TrajectoryView]:
    """What an export or an archive holds."""
    with Session(world.engine) as session:
        fates = fates_of(session, RUN, world.stream)
    placed = enumerate(world.stream)
    found = [fates.view(item, Position(offset)) for offset, item in placed]
    return [view for view in found if counts(view)]


def archived(world: World, form: ArchiveFormat, folder: Path) -> Files:
    archive = Folder(folder.as_uri(), RUN, form)
    every = views(world)
    for first in range(0, len(world.stream), archive.part_messages):
        part = range(first, first + archive.part_messages)
        archive.write(first, [v for v in every if Position.of(v.offset).offset in part])
    files = ArchivedRun(folder.as_uri(), RUN, form)
    assert not files.is_whole()
    archive.finish()
    assert files.is_whole()
    return files


def exported(world: World, form: ArchiveFormat, folder: Path) -> RowFile:
    """As the gateway keeps it once it is uploaded."""
    path = folder / f"all.{form}"
    with (ParquetFile if form == "parquet" else JsonLinesFile)(path) as file:
        file.write(views(world))
    kept = folder / "train.jsonl"
    kept.write_bytes(b"".join(line + b"\n" for line in lines(path)))
    return RowFile(kept)


def replayed(world: World, files: Files | None, chaos: float, **source: Any) -> ReplayWorld:
    if source.get("dataset"):
        add_dataset(world, cast("UploadedRows", files))
    replay = ReplayWorld.of(world, random.Random(9), source=source, limits={"steps": 1000})
    replay.files = files
    replay.drive(chaos)
    assert replay.state.run_state is RunState.COMPLETED, replay.error
    return replay


def add_dataset(world: World, files: UploadedRows) -> None:
    split = DatasetSplit(name="train", sha256=SHA256, size_bytes=1, n_rows=files.n_rows, columns={})
    with Session(world.engine) as session, session.begin():
        row = DatasetRow(
            id="data_1", owner="me", name="monday", digest=SHA256, kind="trajectories",
            splits=[split.model_dump(mode="json")], size_bytes=1, created_s=1.0, is_complete=True,
        )  # fmt: skip
        session.merge(row)


ORDERS = pytest.mark.parametrize(
    "order", [{}, {"epochs": 2, "shuffle_window": 4}], ids=["once", "shuffled"]
)
FORMS = pytest.mark.parametrize("form", ["jsonl", "parquet"])


@FORMS
@ORDERS
@pytest.mark.slow
@pytest.mark.parametrize("chaos", [0.0, 0.05])
def test_an_archive_gives_the_ops_of_the_stream(
    form: ArchiveFormat, order: dict[str, Any], chaos: float, tmp_path: Path
) -> None:
    world = recorded(form)
    files = archived(world, form, tmp_path)
    from_stream = replayed(world, None, 0.0, **order)
    from_files = replayed(world, files, chaos, from_archive=True, **order)
    assert ops_of(from_files) == ops_of(from_stream)
    assert len(ops_of(from_stream)) > 10


@FORMS
@ORDERS
@pytest.mark.slow
@pytest.mark.parametrize("chaos", [0.0, 0.05])
def test_an_export_gives_the_ops_of_the_stream(
    form: ArchiveFormat, order: dict[str, Any], chaos: float, tmp_path: Path
) -> None:
    world = recorded(form)
    rows = UploadedRows(exported(world, form, tmp_path))
    from_stream = replayed(world, None, 0.0, **order)
    from_rows = replayed(world, rows, chaos, run=None, dataset=REFERENCE, **order)
    assert ops_of(from_rows) == ops_of(from_stream)


@pytest.mark.slow
def test_filters_hold_for_files_too(tmp_path: Path) -> None:
    world = recorded("jsonl")
    files = archived(world, "jsonl", tmp_path)
    rows = UploadedRows(exported(world, "jsonl", tmp_path))
    where = {"min_reward": 0.3, "fates": ["trained"], "max_version": 5}
    expected = ops_of(replayed(world, None, 0.0, where=where))
    assert ops_of(replayed(world, files, 0.0, where=where, from_archive=True)) == expected
    from_rows = replayed(world, rows, 0.0, where=where, run=None, dataset=REFERENCE)
    assert ops_of(from_rows) == expected


@pytest.mark.slow
def test_an_archive_is_read_from_an_offset_on(tmp_path: Path) -> None:
    world = recorded("parquet")
    files = archived(world, "parquet", tmp_path)
    offset = 64 * (len(world.stream) // 2)
    from_stream = replayed(world, None, 0.0, from_offset=offset)
    from_files = replayed(world, files, 0.0, from_offset=offset, from_archive=True)
    assert ops_of(from_files) == ops_of(from_stream) != ops_of(replayed(world, None, 0.0))


def test_a_reward_that_was_changed_in_the_file_is_the_one_that_counts(tmp_path: Path) -> None:
    world = recorded("jsonl")
    file = exported(world, "jsonl", tmp_path)
    rows = [file.row(number) for number in range(len(file))]
    trained = [
        row["group"] for row in rows if row["fate"] == "trained" and row["purpose"] == "train"
    ]
    chosen = set(list(dict.fromkeys(trained))[3:5])
    for row in rows:
        if row["group"] in chosen and row["outcome"] == "completed":
            row["reward"] = 9.0 + row["member"]
    changed = tmp_path / "changed.jsonl"
    changed.write_bytes(b"".join(orjson.dumps(row) + b"\n" for row in rows))
    replay = replayed(
        world, UploadedRows(RowFile(changed)), 0.0, run=None, dataset=REFERENCE,
        where={"min_reward": 9.0},
    )  # fmt: skip
    assert set(trained_groups(replay)) == chosen


def test_what_was_read_before_training_began_is_trained_on(tmp_path: Path) -> None:
    """All of the file is one message, so the groups of a window come with the demonstrations or never."""
    world = recorded("jsonl")
    file = exported(world, "jsonl", tmp_path)
    groups: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for row in map(file.row, range(len(file))):
        groups[row["group"]].append(row)
    demonstrated = [g for g in groups.values() if g[0]["purpose"] == "demonstrate"][:4]
    played = [g for g in groups.values() if [r["fate"] for r in g] == ["trained"] * 4][:3]
    rows = [row for group in (*demonstrated, *played) for row in group]
    assert len(rows) == ROWS_AT_ONCE
    short = tmp_path / "short.jsonl"
    short.write_bytes(b"".join(orjson.dumps(row) + b"\n" for row in rows))
    found = UploadedRows(RowFile(short))
    replay = replayed(world, found, 0.0, run=None, dataset=REFERENCE, shuffle_window=4)
    assert len(trained_groups(replay)) == 4 + 2


@pytest.mark.parametrize("recording", [Run, DatasetRow])
def test_a_replay_that_is_over_is_loaded_without_its_recording(
    recording: type[Run | DatasetRow], tmp_path: Path
) -> None:
    """Its queues may still have to be deleted."""
    world = recorded("jsonl")
    rows = UploadedRows(exported(world, "jsonl", tmp_path))
    source = {"run": None, "dataset": REFERENCE} if recording is DatasetRow else {}
    replay = replayed(world, rows if source else None, 0.0, **source)
    with Session(replay.engine) as session, session.begin():
        session.delete(session.get_one(recording, "data_1" if source else RUN))
    replay.load()
    assert replay.state.is_over
    assert replay.state.run_state is RunState.COMPLETED


def test_messages_of_an_archive_are_those_of_the_stream(tmp_path: Path) -> None:
    world = recorded("jsonl")
    files = archived(world, "jsonl", tmp_path)
    offsets = [message.offset for message in files.messages(0)]
    assert offsets == [Position.of(view.offset).offset for view in views(world)]
    assert [m.offset for m in files.messages(70)] == [offset for offset in offsets if offset >= 70]


def test_rows_are_read_some_at_a_time(tmp_path: Path) -> None:
    rows = UploadedRows(exported(recorded("jsonl"), "jsonl", tmp_path))
    messages = list(rows.messages(1))
    assert [message.offset for message in messages] == list(
        range(1, -(-rows.n_rows // ROWS_AT_ONCE))
    )
    assert sum(len(message.endings) for message in messages) == rows.n_rows - ROWS_AT_ONCE
