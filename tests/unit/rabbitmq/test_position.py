"""A reader's position: each offset once, whatever the server sends again."""

import time
from datetime import datetime

from hypothesis import given
from hypothesis import strategies as st

from warren_broker.port import FromTime
from warren_broker.rabbitmq.consuming.stream_reader import Position


def test_it_goes_on_behind_what_it_has_taken() -> None:
    position = Position("first")
    assert position.ask() == "first"
    assert position.admits(0, None)
    assert position.admits(1, None)
    assert position.ask() == 2
    assert not position.admits(1, None)


def test_an_offset_is_asked_for_and_nothing_before_it_taken() -> None:
    position = Position(5)
    assert position.ask() == 5
    assert not position.admits(4, None)
    assert position.admits(5, None)
    assert Position(0).ask() == "first"


def test_next_that_lost_its_connection_before_anything_came_goes_on_from_its_beginning() -> None:
    position = Position("next")
    began_s = time.time()
    assert position.ask() == "next"
    again = position.ask()
    assert isinstance(again, datetime)
    assert again.timestamp() < began_s
    assert not position.admits(3, began_s - 5.0)
    assert position.admits(4, time.time())


def test_a_time_skips_what_was_published_before_it_and_then_nothing_more() -> None:
    now_s = time.time()
    position = Position(FromTime(now_s - 100.0))
    assert isinstance(position.ask(), datetime)
    assert not position.admits(7, now_s - 101.0)
    assert position.admits(8, now_s - 100.0)
    assert position.admits(9, now_s - 101.0)  # another publisher's clock is behind
    assert position.ask() == 10


def test_a_time_to_come_is_next() -> None:
    assert Position(FromTime(time.time() + 100.0)).ask() == "next"


@given(st.lists(st.integers(0, 20)))
def test_offsets_come_once_and_in_order(sent: list[int]) -> None:
    position = Position("first")
    taken = [offset for offset in sent if position.admits(offset, None)]
    assert taken == sorted(set(taken))


@given(st.lists(st.integers(0, 20), min_size=1))
def test_what_was_not_handed_out_comes_again(sent: list[int]) -> None:
    position = Position("first")
    taken = [offset for offset in sent if position.admits(offset, None)]
    position.rewind(taken[0])
    assert position.ask() == (taken[0] or "first")
    assert [offset for offset in taken if position.admits(offset, None)] == taken
