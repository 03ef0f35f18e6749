"""The parser of server-sent events: cut anywhere, it says the same."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from warren.connection.sse import ServerEvent, SseParser


def parse(*chunks: bytes) -> list[ServerEvent]:
    parser = SseParser()
    return [event for chunk in chunks for event in parser.feed(chunk)]


def test_reads_an_event_with_all_its_fields() -> None:
    assert parse(b"id: 7\nevent: step\ndata: one\ndata: two\n\n") == [
        ServerEvent(id="7", name="step", data="one\ntwo")
    ]


def test_an_event_that_was_cut_off_is_not_seen() -> None:
    assert parse(b"id: 7\ndata: half") == []
    assert parse(b"id: 7\ndata: half\n") == []


def test_comments_and_unknown_fields_say_nothing() -> None:
    assert parse(b": ping\n\nretry: 5\nweather: fine\n\n") == []


def test_an_id_lasts_until_the_next_one() -> None:
    assert [e.id for e in parse(b"id: 1\ndata: a\n\ndata: b\n\n")] == ["1", "1"]


def test_only_one_space_after_the_colon_is_dropped() -> None:
    assert parse(b"data:  x\n\n")[0].data == " x"


EVENTS = b"".join(
    f"id: {i}{end}event: e{i}{end}data: {text}{end}{end}".encode()
    for i, (text, end) in enumerate([("one", "\n"), ("zwölf", "\r\n"), ("three", "\r"), ("", "\n")])
)


@given(st.lists(st.integers(0, len(EVENTS)), max_size=12))
def test_bytes_may_be_cut_anywhere(places: list[int]) -> None:
    edges = [0, *sorted(places), len(EVENTS)]
    chunks = [EVENTS[a:b] for a, b in pairwise(edges)]
    assert parse(*chunks, b"\n") == parse(EVENTS, b"\n")
    assert [e.data for e in parse(*chunks, b"\n")] == ["one", "zwölf", "three", ""]
