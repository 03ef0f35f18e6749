"""Acks that travel together settle exactly what was acked, whatever the order."""

from hypothesis import given
from hypothesis import strategies as st

from warren_broker.rabbitmq.consuming.acks import packed

TAGS = st.sets(st.integers(1, 40))


@given(in_hand=TAGS, waiting=TAGS)
def test_packed_acks_settle_what_waits_and_nothing_in_hand(
    in_hand: set[int], waiting: set[int]
) -> None:
    waiting -= in_hand
    at_server = in_hand | waiting
    for tag, is_for_all_before in packed(sorted(waiting, reverse=True), min(in_hand, default=None)):
        settled = {
            other for other in at_server if other == tag or (is_for_all_before and other < tag)
        }
        assert settled <= waiting
        at_server -= settled
    assert at_server == in_hand


@given(waiting=TAGS)
def test_what_nothing_in_hand_precedes_takes_one_ack(waiting: set[int]) -> None:
    assert len(packed(list(waiting), None)) == bool(waiting)
