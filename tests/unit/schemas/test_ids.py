"""Ids sort by the time of their making and never meet."""

import re
import time

import pytest

from warren_schemas.ids import new_id, new_message_id, new_run_id


def test_ids_sort_by_time(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[str] = []
    for milliseconds in (1, 15, 16, 1_763_000_000_000, 1_763_000_000_001, 2**44):
        monkeypatch.setattr(time, "time_ns", lambda ms=milliseconds: ms * 1_000_000)
        made += [new_id("run")]
    assert made == sorted(made)


def test_ids_of_one_moment_differ() -> None:
    assert len({new_message_id() for _ in range(10_000)}) == 10_000


def test_an_id_says_what_it_names() -> None:
    assert re.fullmatch(r"run_[0-9a-f]{28}", new_run_id())
