"""The codec gives back what it was given, whatever the kind, and reads frames as documented."""

import json
import struct
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.factories import (
    EXAMPLES,
    make_close_model,
    make_envelope,
    make_episode_ended,
    make_generate,
    make_op,
    make_op_result,
    make_run_event,
    make_spec,
    make_start_episode,
    make_step,
    make_token_batch,
    make_tokens,
    make_transcript,
    to_plain,
)

from warren_schemas.codec.frame import MAX_MESSAGE_BYTES, WireError
from warren_schemas.codec.wire import KINDS, MAX_ITEMS, decode, encode
from warren_schemas.config import ImportanceSamplingLoss
from warren_schemas.envelope import Item
from warren_schemas.episode import Completed, EpisodeEnded
from warren_schemas.events import StepCompleted, WarningRaised
from warren_schemas.training import ForwardBackward, OpDone
from warren_schemas.transcript import ChatMessage, Tokens, Turn

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
numbers = st.floats(allow_nan=False, allow_infinity=False)
metrics = st.dictionaries(texts, numbers, max_size=3)
logprobs = st.floats(max_value=0.0, width=32, allow_nan=False, allow_infinity=False)
weights = st.floats(width=32, allow_nan=False, allow_infinity=False)


@st.composite
def tokens(draw: st.DrawFn) -> Tokens:
    n = draw(st.integers(0, 5))

    def array(elements: st.SearchStrategy[Any], dtype: Any) -> Any:
        return np.array(draw(st.lists(elements, min_size=n, max_size=n)), dtype)

    return Tokens(
        ids_T=array(st.integers(0, 2**31 - 1), np.int32),
        mask_T=array(st.integers(0, 1), np.uint8),
        logprobs_T=array(logprobs, np.float32),
        versions_T=array(st.integers(-1, 2**31 - 1), np.int32),
    )


messages = st.lists(st.builds(ChatMessage, role=st.just("user"), content=texts), max_size=3)
turns = st.lists(
    st.builds(Turn, reward=st.none() | numbers, digest=texts, metrics=metrics), max_size=2
)
transcripts = st.builds(
    make_transcript, messages=messages.map(tuple), tokens=tokens(), turns=turns.map(tuple)
)
batches = st.lists(st.integers(1, 4), min_size=1, max_size=3).map(lambda n: make_token_batch(*n))
items: list[st.SearchStrategy[Item]] = [
    st.builds(make_start_episode, spec=st.builds(make_spec, environment_config=metrics)),
    st.builds(make_generate, transcript=transcripts, forced_action=st.none() | texts),
    st.builds(make_step, transcript=transcripts),
    st.builds(
        make_episode_ended,
        transcript=transcripts,
        outcome=st.builds(Completed, reward=numbers, metrics=metrics),
    ),
    st.builds(
        make_op,
        body=st.builds(ForwardBackward, loss=st.just(ImportanceSamplingLoss()), batch=batches),
    ),
    st.builds(
        make_op_result,
        outcome=st.builds(
            OpDone,
            version=st.integers(0, 2**63 - 1),
            metrics=metrics,
            logprobs_N=st.none() | st.lists(logprobs).map(lambda x: np.array(x, np.float32)),
        ),
    ),
    st.builds(make_run_event, body=st.builds(WarningRaised, message=texts)),
]


@given(st.one_of([st.lists(kind, min_size=1, max_size=4) for kind in items]))
def test_what_goes_in_comes_out(batch: list[Item]) -> None:
    decoded = decode(encode(batch))
    assert decoded.rejected == []
    assert [type(item) for item in decoded.items] == [type(item) for item in batch]
    assert [to_plain(item) for item in decoded.items] == [to_plain(item) for item in batch]


@pytest.mark.parametrize("kind", KINDS.values(), ids=lambda kind: kind.kind)
def test_every_kind_comes_out_as_it_went_in(kind: type[Item]) -> None:
    decoded = decode(encode(EXAMPLES[kind]))
    assert [to_plain(item) for item in decoded.items] == [to_plain(i) for i in EXAMPLES[kind]]
    assert {type(item) for item in decoded.items} == {kind}


def test_a_message_holds_up_to_64_items() -> None:
    assert len(decode(encode([make_step()] * MAX_ITEMS)).items) == MAX_ITEMS


def test_arrays_come_out_read_only_and_of_their_dtype() -> None:
    [item] = decode(encode([make_episode_ended()])).items
    assert isinstance(item, EpisodeEnded)
    sequence = item.transcript.tokens
    assert sequence.ids_T.dtype == np.int32
    assert sequence.mask_T.dtype == np.uint8
    assert sequence.logprobs_T.dtype == np.float32
    for array in (sequence.ids_T, sequence.mask_T, sequence.logprobs_T, sequence.versions_T):
        assert not array.flags.writeable


def test_what_was_decoded_can_be_sent_on() -> None:
    body = encode([make_step(), make_step()])
    assert encode(decode(body).items) == body


def test_a_column_holds_the_arrays_of_all_items_and_starts_on_8_bytes() -> None:
    """Read by hand, as the module's docstring describes it."""
    body = encode([make_step(transcript=make_transcript(n)) for n in (3, 5)])
    magic, n_header, n_items = struct.unpack_from("<4sII", body)
    assert magic == b"WRN1"
    header = json.loads(body[12 : 12 + n_header])
    items = json.loads(body[12 + n_header : 12 + n_header + n_items])
    assert header["columns"] == [["tokens", "Tokens", "<i4|u1<f4<i4", 8]]
    assert [item["transcript"]["tokens"] for item in items] == [[0, 3], [3, 8]]
    start = -(-(12 + n_header + n_items + sum(header["texts"])) // 8) * 8
    assert body[start : start + 32] == np.array([0, 17, 34, 0, 17, 34, 51, 68], "<i4").tobytes()
    assert len(body) == start + 8 * (4 + 1 + 4 + 4)


def test_numpy_numbers_travel_as_numbers() -> None:
    event = StepCompleted(
        phase="training",  # pyright: ignore[reportArgumentType]
        step=1,
        n_steps=2,
        version=1,
        n_episodes=1,
        metrics={"reward/mean": np.float64(0.5), "reward/std": np.float32(0.25)},  # pyright: ignore[reportArgumentType]
    )
    [item] = decode(encode([make_run_event(body=event)])).items
    assert to_plain(item)["body"]["metrics"] == {"reward/mean": 0.5, "reward/std": 0.25}


def test_only_items_of_one_kind_travel_together() -> None:
    with pytest.raises(WireError, match="one kind only"):
        encode([make_step(), make_generate()])


@pytest.mark.parametrize("n_items", [0, MAX_ITEMS + 1])
def test_the_number_of_items_is_bounded(n_items: int) -> None:
    with pytest.raises(WireError, match=f"1 to 64 items, not {n_items}"):
        encode([make_close_model()] * n_items)


def test_a_message_has_a_largest_size() -> None:
    large = make_step(transcript=make_transcript(tokens=make_tokens(MAX_MESSAGE_BYTES // 13)))
    with pytest.raises(WireError, match="over 8388608"):
        encode([large])


def test_text_that_is_no_unicode_is_refused_when_it_leaves() -> None:
    with pytest.raises(WireError, match="surrogates"):
        encode([make_close_model(envelope=make_envelope(traceparent="\ud800"))])
