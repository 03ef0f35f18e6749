"""The archive's folder: whole files, whoever else writes them, and one kind of error."""

from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from tests.support.factories import make_episode_ended

from warren_gateway.archive.folder import COMPLETE, INCOMPLETE, ArchiveUnavailable, Folder
from warren_gateway.position import Position
from warren_gateway.recordings.fates import Fates
from warren_schemas.http import TrajectoryView
from warren_schemas.ids import RunId

LocalFileSystem: Any = import_module("fsspec.implementations.local").LocalFileSystem
RUN = RunId("run_1")
FIRST_PART = f"{0:012d}.jsonl.zst"


def opened(path: Path) -> Folder:
    return Folder(path.as_uri(), RUN, "jsonl")


def one_view() -> list[TrajectoryView]:
    return [Fates({}).view(make_episode_ended(), Position(0))]


def names_in(path: Path) -> set[str]:
    return {file.name for file in (path / RUN).iterdir()}


def test_two_gateways_write_the_same_part_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One begins and ends while the other is about to move its own into place."""
    one, other, views = opened(tmp_path), opened(tmp_path), one_view()
    move = LocalFileSystem.mv

    def mv(self: Any, *paths: str) -> None:
        monkeypatch.setattr(LocalFileSystem, "mv", move)
        other.write(0, views)
        move(self, *paths)

    monkeypatch.setattr(LocalFileSystem, "mv", mv)
    one.write(0, views)
    assert names_in(tmp_path) == {FIRST_PART}
    assert one.next_offset() == other.next_offset() == 64


def test_what_a_gateway_left_half_written_is_gone_in_the_end(tmp_path: Path) -> None:
    folder = opened(tmp_path)
    (tmp_path / RUN / f".{FIRST_PART}.0123abcd.part").write_text("half")
    folder.write(0, one_view())
    folder.finish()
    assert names_in(tmp_path) == {FIRST_PART, COMPLETE}


def test_the_end_says_what_the_parts_lack(tmp_path: Path) -> None:
    one, other = opened(tmp_path), opened(tmp_path)
    one.write(0, one_view(), [range(3, 4), range(60, 64)])
    one.write(64, [], [range(64, 128)])
    other.write(128, one_view())
    assert not other.is_finished()
    other.finish()
    assert one.is_finished()
    assert (tmp_path / RUN / INCOMPLETE).read_text() == "3-3\n60-127\n"
    assert COMPLETE not in names_in(tmp_path)


def test_a_whole_part_stays_when_another_gateway_came_too_late_for_it(tmp_path: Path) -> None:
    one, late = opened(tmp_path), opened(tmp_path)
    one.write(0, one_view())
    before = (tmp_path / RUN / FIRST_PART).read_bytes()
    late.write(0, [], [range(64)])
    assert (tmp_path / RUN / FIRST_PART).read_bytes() == before
    late.finish()
    assert names_in(tmp_path) == {FIRST_PART, COMPLETE}


@pytest.mark.parametrize("call", ["makedirs", "exists", "ls", "put_file", "mv", "cat_file"])
def test_what_an_object_store_raises_is_one_kind_of_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise LookupError("no such endpoint")  # as little of an `OSError` as botocore's

    monkeypatch.setattr(LocalFileSystem, call, fail)
    with pytest.raises(ArchiveUnavailable, match="LookupError: no such endpoint"):
        _use_all(tmp_path)


def _use_all(path: Path) -> None:
    folder = opened(path)
    folder.is_finished()
    folder.write(folder.next_offset(), [], [range(3, 64)])
    folder.finish()
