"""A large file comes in parts by several streams, and is whole or refused."""

import threading
from pathlib import Path

import pytest
from tests.support.patience import STOP_S

from warren_gpu_worker.file_progress import unheard
from warren_gpu_worker.ranged_download import fetch_in_parts

CONTENT = bytes(range(256)) * 4


class Store:
    """Gives each part once two streams have asked, and of the content no more than `n_bytes`."""

    def __init__(self, n_bytes: int = len(CONTENT)) -> None:
        self._content = CONTENT[:n_bytes]
        self._two = threading.Barrier(2)

    def cat_file(self, path: str, start: int, end: int) -> bytes:
        self._two.wait(timeout=STOP_S)
        return self._content[start:end]


def test_parts_come_side_by_side_and_make_the_file(tmp_path: Path) -> None:
    n_told = 0

    def progress(size_bytes: int = 0, /) -> None:
        nonlocal n_told
        n_told += 1

    fetch_in_parts(Store(), "a", tmp_path / "a", len(CONTENT), progress, part_bytes=256)
    assert (tmp_path / "a").read_bytes() == CONTENT
    assert n_told == 4


def test_a_file_that_ends_early_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="a ended before byte 1024 of 1024"):
        fetch_in_parts(Store(1000), "a", tmp_path / "a", len(CONTENT), unheard, part_bytes=256)


def test_a_last_part_may_be_short(tmp_path: Path) -> None:
    n_bytes = len(CONTENT) - 100
    fetch_in_parts(Store(), "a", tmp_path / "a", n_bytes, unheard, part_bytes=256)
    assert (tmp_path / "a").read_bytes() == CONTENT[:n_bytes]
