"""What was said in an episode travels in two texts, and costs what is new."""

from collections.abc import Sequence
from typing import Any, cast

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.factories import (
    make_episode_ended,
    make_generate,
    make_spec,
    make_step,
    make_transcript,
)
from tests.unit.schemas.test_malformed import put_together, take_apart

from warren_schemas.codec.wire import decode, encode, glimpse
from warren_schemas.episode import Generate, Step
from warren_schemas.fields import growing_lists
from warren_schemas.fields.growing_lists import MAX_REMEMBERED_BYTES, MAX_SHORT
from warren_schemas.transcript import ChatMessage, Transcript, Turn

SPEC = make_spec()
LONG = MAX_SHORT + 2
"""Turns of an episode whose lists travel in texts."""


def asked(content: str) -> ChatMessage:
    return ChatMessage(role="user", content=content)


def said(content: str) -> ChatMessage:
    return ChatMessage(role="assistant", content=content)


def played(n_turns: int, name: str = "") -> Transcript:
    """So many turns, and the question after them."""
    messages = [asked(f"{name}?")]
    for turn in range(n_turns):
        messages += [said(f"{turn}"), asked(f"{name}{turn}?")]
    turns = tuple(Turn(digest=f"{name}{turn}") for turn in range(n_turns))
    return make_transcript(messages=tuple(messages), turns=turns)


def generate(transcript: Transcript) -> Generate:
    return make_generate(spec=SPEC, transcript=transcript, turn=len(transcript.turns))


def step(transcript: Transcript, words: str) -> Step:
    messages = (*transcript.messages, said(words))
    acted = transcript.model_copy(update={"messages": messages})
    return make_step(spec=SPEC, transcript=acted, turn=len(transcript.turns) + 1)


def answered(transcript: Transcript, words: str) -> Transcript:
    more = {"messages": (*transcript.messages, asked(words))}
    return transcript.model_copy(update=more | {"turns": (*transcript.turns, Turn(digest=words))})


def texts(body: bytes) -> list[list[object]]:
    header, _, joined, _ = take_apart(body)
    found: list[list[object]] = []
    for n_bytes in header["texts"]:
        text: object = orjson.loads(joined[:n_bytes])
        joined = joined[n_bytes:]
        if isinstance(text, list):
            found.append(cast("list[object]", text))
    return found


def one(body: bytes) -> Transcript:
    [item] = decode(body).items
    assert isinstance(item, Generate | Step)
    return item.transcript


def test_an_old_and_a_new_text_of_each_list() -> None:
    asks, acts = encode([generate(played(LONG))]), encode([step(played(LONG), "end")])
    assert [len(text) for text in texts(asks)] == [2 * LONG, 1, LONG - 1, 1]
    assert [len(text) for text in texts(acts)] == [2 * LONG + 1, 1, LONG]


def test_a_short_list_stands_in_its_item() -> None:
    assert texts(encode([generate(played(MAX_SHORT // 2 - 1))])) == []


def test_what_comes_back_is_what_was_sent_and_not_read_anew() -> None:
    sent, back = played(LONG, "back"), encode([step(played(LONG, "back"), "2")])
    encode([generate(sent)])
    acted = one(back)
    assert all(a is b for a, b in zip(acted.messages[:-1], sent.messages, strict=True))
    assert all(a is b for a, b in zip(acted.turns, sent.turns, strict=True))


words = st.text(st.characters(exclude_categories=["Cs"]), max_size=4)


@given(st.lists(st.tuples(words, words, st.booleans(), st.booleans()), max_size=8))
def test_the_bytes_follow_from_the_item_alone(hops: list[tuple[str, str, bool, bool]]) -> None:
    """Whether it moves to a worker that has not seen it, or an earlier turn is rewarded late."""
    here = played(MAX_SHORT - 2)
    for says, asks, moves, is_late in hops:
        there = one(encode([generate(here)]))
        back = one(encode([step(unseen(there) if moves else there, says)]))
        here = answered(back, asks)
        if is_late:
            first = here.turns[0].model_copy(update={"reward": -0.0})
            here = here.model_copy(update={"turns": (first, *here.turns[1:])})
        body = encode([generate(here)])
        assert plain(one(body)) == plain(here)
        assert encode([generate(unseen(here))]) == body


def plain(transcript: Transcript) -> dict[str, Any]:
    return orjson.loads(transcript.model_dump_json())


def unseen(transcript: Transcript) -> Transcript:
    return Transcript.model_validate(plain(transcript))


def test_what_was_forgotten_is_read() -> None:
    sent, back = played(LONG, "gone"), encode([step(played(LONG, "gone"), "2")])
    encode([generate(sent)])
    fill()
    acted = one(back)
    assert acted.messages[:-1] == sent.messages
    assert acted.messages[0] is not sent.messages[0]


def fill() -> None:
    """Send more than is remembered."""
    large = asked("x" * (MAX_REMEMBERED_BYTES // 8))
    for number in range(10):
        messages = (large, *played(LONG, f"{number}").messages)
        encode([generate(make_transcript(messages=messages, turns=()))])


def test_what_is_remembered_has_an_end() -> None:
    fill()
    assert growing_lists.n_remembered_bytes() <= MAX_REMEMBERED_BYTES


def test_the_end_of_an_episode_is_not_remembered() -> None:
    transcript = played(LONG, "ended")
    encode([generate(transcript)])
    before = growing_lists.n_remembered_bytes()
    ended = step(transcript, "the end").transcript
    encode([make_episode_ended(spec=SPEC, transcript=ended)])
    assert growing_lists.n_remembered_bytes() < before


def broken(body: bytes, old: bytes, new: bytes) -> bytes:
    header, items, joined, columns = take_apart(body)
    assert len(old) == len(new)
    assert old in joined
    return put_together(header, items, joined.replace(old, new), columns)


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        (b'"content":"bad25?"', b'"contemt":"bad25?"', "transcript.messages.52.content: missing"),
        (b'"content":"bad0?"', b'"contemt":"bad0?"', "transcript.messages.2.content: missing"),
        (b'"digest":"bad25"', b'"digest":12.3456', "transcript.turns.25.digest: expected text"),
        (b'[{"role":"user"', b'!{"role":"user"', "transcript.messages: "),
    ],
)
def test_a_bad_entry_is_told_by_its_place_in_the_whole(old: bytes, new: bytes, reason: str) -> None:
    body = broken(encode([generate(played(LONG, "bad"))]), old, new)
    [rejected] = decode(body).rejected
    assert rejected.reason.startswith(f"item 0: {reason}")
    [again] = decode(rejected.body).rejected
    assert again.reason == rejected.reason


@pytest.mark.parametrize("numbers", [[99], [-1], ["0"], [0.5], 0, None])
def test_a_text_that_the_message_has_not(numbers: object) -> None:
    header, items, joined, columns = take_apart(encode([generate(played(LONG))]))
    items[0]["transcript"]["messages"] = {"texts": numbers}
    [rejected] = decode(put_together(header, items, joined, columns)).rejected
    assert "transcript.messages" in rejected.reason
    assert glimpse(rejected.body)


def test_a_list_may_stand_in_its_item() -> None:
    header, items, joined, columns = take_apart(encode([generate(played(LONG))]))
    items[0]["transcript"]["messages"] = [{"role": "user", "content": "by hand"}]
    assert one(put_together(header, items, joined, columns)).messages == (asked("by hand"),)


def test_a_look_into_a_message_shows_its_lists() -> None:
    seen = glimpse(encode([generate(played(LONG, "seen"))]))
    assert seen is not None
    [item] = seen.items
    assert contents(item) == [m.content for m in played(LONG, "seen").messages]


def contents(item: object) -> Sequence[str]:
    shown = cast("dict[str, dict[str, list[dict[str, str]]]]", item)
    return [message["content"] for message in shown["transcript"]["messages"]]
