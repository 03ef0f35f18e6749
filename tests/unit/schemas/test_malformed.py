"""Whatever arrives, `decode` answers with items, rejections or a `WireError`, and with the reason."""

import struct
from collections.abc import Callable
from typing import Any

import numpy as np
import orjson
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError
from tests.support.factories import (
    make_close_model,
    make_episode_ended,
    make_op_result,
    make_spec,
    make_start_episode,
    make_step,
    make_tokens,
    make_transcript,
    to_plain,
)

from warren_broker.remote.frames import EntityName
from warren_schemas.codec.columns import ColumnWriter
from warren_schemas.codec.frame import MAX_MESSAGE_BYTES, WireError, write
from warren_schemas.codec.wire import Decoded, decode, encode
from warren_schemas.envelope import Envelope
from warren_schemas.episode import PolicyRef, Step
from warren_schemas.fields.arrays import array_fields
from warren_schemas.fields.spec_texts import MAX_REMEMBERED
from warren_schemas.ids import ModelId, RunId
from warren_schemas.sampling_mask import SamplingMask
from warren_schemas.training import OpDone
from warren_schemas.transcript import Tokens


def take_apart(body: bytes) -> tuple[dict[str, Any], list[Any], bytes, bytes]:
    """Header, items, specs and columns of a message."""
    _, n_header, n_items = struct.unpack_from("<4sII", body)
    specs_at = 12 + n_header + n_items
    header, items = (
        orjson.loads(body[12 : 12 + n_header]),
        orjson.loads(body[12 + n_header : specs_at]),
    )
    end = specs_at + sum(header["texts"])
    return header, items, body[specs_at:end], body[end + (-end % 8) :]


def put_together(header: object, items: object, specs: bytes = b"", columns: bytes = b"") -> bytes:
    parts = [part if isinstance(part, bytes) else orjson.dumps(part) for part in (header, items)]
    start = struct.pack("<4sII", b"WRN1", *map(len, parts)) + b"".join(parts) + specs
    return start + bytes(-len(start) % 8) + columns


def change_items(body: bytes, change: Callable[[list[Any]], object]) -> Decoded:
    header, items, specs, columns = take_apart(body)
    change(items)
    return decode(put_together(header, items, specs, columns))


GOOD = encode([make_step(), make_step()])
HEADER, ITEMS, SPECS, COLUMNS = take_apart(GOOD)
MASKED_TOKENS = make_tokens(6, sampling_mask=SamplingMask.none(6))
MASKED = encode([make_step(transcript=make_transcript(tokens=MASKED_TOKENS))] * 2)
"""Whose tokens say more than one span tells."""
CLOSE: dict[str, Any] = {"kind": "close_model", "version": 1, "columns": [], "texts": []}
CLOSE_ITEM = to_plain(make_close_model())


def test_the_tools_of_this_file_work() -> None:
    assert put_together(HEADER, ITEMS, SPECS, COLUMNS) == GOOD
    assert len(decode(put_together(CLOSE, [CLOSE_ITEM])).items) == 1


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b"", "12 to 8388608 bytes, not 0"),
        (GOOD[:11], "12 to 8388608 bytes, not 11"),
        (bytes(MAX_MESSAGE_BYTES + 1), "12 to 8388608 bytes, not 8388609"),
        (b"WRN2" + GOOD[4:], "starts with b'WRN1', not with b'WRN2'"),
        (GOOD[:4] + b"\xff\xff\xff\x7f" + GOOD[8:], "should end at byte 2147"),
        (GOOD[:8] + b"\xff\xff\xff\x7f" + GOOD[12:], "should end at byte 2147"),
        (GOOD[:20], "should end at byte"),
        (GOOD[:-1], "ends before column tokens does"),
        (GOOD[:-40], "the message ends before column"),
        (GOOD + b"\0", "the message should have"),
        (GOOD + bytes(8), "the message should have"),
    ],
)
def test_a_frame_that_is_cut_or_no_frame_at_all(body: bytes, reason: str) -> None:
    with pytest.raises(WireError, match=reason):
        decode(body)


def test_every_truncation_is_noticed() -> None:
    for n_bytes in range(len(GOOD)):
        with pytest.raises(WireError):
            decode(GOOD[:n_bytes])


@pytest.mark.parametrize(
    ("header", "reason"),
    [
        (b"not JSON", "header: Invalid JSON"),
        (b"\xff\xfe", "header: Invalid JSON"),
        ([], "header: expected keys and values"),
        ({}, "header: kind: missing; version: missing; columns: missing; texts: missing"),
        (CLOSE | {"kind": "close_modal"}, "no schema for 'close_modal' version 1"),
        (CLOSE | {"version": 2}, "no schema for 'close_model' version 2"),
        (CLOSE | {"version": "1"}, "header: version: expected a whole number, got '1'"),
        (CLOSE | {"colour": "red"}, "header: colour: unknown key"),
        (CLOSE | {"columns": [["ids_T", "token_ids", "<i4", -1]]}, "at least 0, got -1"),
        (CLOSE | {"columns": [["ids_T", "token_ids", "<i8", 0]]}, "unknown, or there twice"),
        (CLOSE | {"columns": [["ids_T", "colours", "<i4", 0]]}, "unknown, or there twice"),
        (CLOSE | {"columns": [["a", "mask", "|u1", 0]] * 2}, "unknown, or there twice"),
        (CLOSE | {"columns": [["a", "mask", "|u1", 2**62]]}, "ends before column a does"),
        (CLOSE | {"columns": [["a", "mask", "|u1"]]}, "header: columns.0.3: missing"),
    ],
)
def test_a_header_that_does_not_fit(header: object, reason: str) -> None:
    with pytest.raises(WireError, match=reason):
        decode(put_together(header, [CLOSE_ITEM]))


@pytest.mark.parametrize(
    ("items", "reason"),
    [
        (b"not JSON", "the items are not JSON"),
        (b'[{"a": NaN}]', "the items are not JSON"),
        (b"[" * 500 + b"]" * 500, "item 0 can't be read"),
        ({}, "the items are not a list"),
        ([], "1 to 64 items, not 0"),
        ([CLOSE_ITEM] * 65, "1 to 64 items, not 65"),
    ],
)
def test_items_that_are_no_items(items: object, reason: str) -> None:
    with pytest.raises(WireError, match=reason):
        decode(put_together(CLOSE, items))


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"colour": "red"}, "item 1: colour: unknown key; valid keys: envelope, epoch, model"),
        ({"epoch": "1"}, "item 1: epoch: expected a whole number, got '1'"),
        ({"epoch": 1.0}, "item 1: epoch: expected a whole number, got 1.0"),
        ({"epoch": 0}, "item 1: epoch: expected a number of at least 1, got 0"),
        ({"epoch": None}, "item 1: epoch: expected a whole number, got nothing"),
        ({"model": 5}, "item 1: model: expected text, got 5"),
        ({"envelope": {}, "epoch": 0}, "item 1: epoch: expected a number of at least 1, got 0"),
        ({"envelope": {"atempt": 1}}, "item 1: envelope.atempt: unknown key; did you mean attempt"),
        ({"envelope": []}, "item 1: envelope: expected keys and values, got a list"),
    ],
)
def test_a_bad_item_is_named_and_its_neighbours_arrive(change: dict[str, Any], reason: str) -> None:
    decoded = decode(put_together(CLOSE, [CLOSE_ITEM, CLOSE_ITEM | change, CLOSE_ITEM]))
    assert [to_plain(item) for item in decoded.items] == [CLOSE_ITEM, CLOSE_ITEM]
    [rejected] = decoded.rejected
    assert rejected.index == 1
    assert rejected.reason.startswith(reason)


@pytest.mark.parametrize("item", [None, 5, "text", [], [[0, 1]]])
def test_an_item_that_is_no_object_takes_nobody_down(item: object) -> None:
    decoded = decode(put_together(CLOSE, [item, CLOSE_ITEM]))
    assert len(decoded.items) == 1
    assert decoded.rejected[0].reason.startswith("item 0: ")


def set_tokens(index: int, told: object) -> Callable[[list[Any]], object]:
    return lambda items: items[index]["transcript"].update(tokens=told)


def set_arrays(index: int, **spans: object) -> Callable[[list[Any]], object]:
    return lambda items: items[index]["transcript"]["tokens"].update(spans)


BAD_SPANS = [None, 5, "ids", [], [0], [0, 1, 2], [0, 99], [-6, -3], [4, 2], [0.0, 6.0], ["0", "6"]]


@pytest.mark.parametrize("span", [*BAD_SPANS, {}, {"tokens": [0, 6]}])
def test_a_span_outside_its_columns_is_its_items_fault(span: object) -> None:
    decoded = change_items(GOOD, set_tokens(1, span))
    assert len(decoded.items) == 1
    assert "item 1: transcript.tokens" in decoded.rejected[0].reason


@pytest.mark.parametrize("span", [*BAD_SPANS, {}])
def test_a_span_outside_its_column_is_its_items_fault(span: object) -> None:
    decoded = change_items(MASKED, set_arrays(1, ids_T=span))
    assert len(decoded.items) == 1
    assert "item 1: transcript.tokens.ids_T: not the span of a column" in decoded.rejected[0].reason


def test_arrays_of_unequal_length_are_their_items_fault() -> None:
    decoded = change_items(MASKED, set_arrays(0, mask_T=[0, 5]))
    assert len(decoded.items) == 1
    assert "transcript.tokens: arrays differ in length: 6 ids, 5 mask" in decoded.rejected[0].reason


def test_arrays_that_share_a_span_and_differ_in_length_are_not_sent() -> None:
    good = make_step()
    tokens = good.transcript.tokens
    bad = tokens.model_copy(update={"mask_T": tokens.mask_T[1:]})
    longer = tokens.model_copy(update={"mask_T": np.append(tokens.mask_T, tokens.mask_T[:1])})
    steps = [
        good.model_copy(update={"transcript": good.transcript.model_copy(update={"tokens": t})})
        for t in (tokens, bad, longer)
    ]
    with pytest.raises(WireError, match="arrays differ in length: mask_T and ids_T"):
        encode(steps)


@pytest.mark.parametrize(
    "shape",
    [
        ["tokens", "Tokens", "<i4|u1<f4<f4", 12],
        ["tokens", "Others", "<i4|u1<f4<i4", 12],
        ["tokens", "Tokens", "<i4", 12],
    ],
)
def test_a_layout_that_this_version_does_not_know_is_refused(shape: list[object]) -> None:
    with pytest.raises(WireError, match=r"column 'tokens' of .* is unknown"):
        decode(put_together(HEADER | {"columns": [shape]}, ITEMS, SPECS, COLUMNS))


def test_a_field_whose_columns_are_there_twice_is_refused() -> None:
    header = HEADER | {"columns": HEADER["columns"] * 2}
    with pytest.raises(WireError, match="there twice"):
        decode(put_together(header, ITEMS, SPECS, COLUMNS * 2))


def test_a_column_that_has_the_name_of_a_field_with_spans_is_none_of_its_columns() -> None:
    header = HEADER | {"columns": [["tokens", "token_ids", "<i4", 12]]}
    decoded = decode(put_together(header, ITEMS, SPECS, COLUMNS[:48]))
    assert [r.index for r in decoded.rejected] == [0, 1]
    assert "not the span of columns of Tokens" in decoded.rejected[0].reason


def test_a_column_of_another_rule_is_refused() -> None:
    header, items, specs, rest = take_apart(MASKED)
    other = {"ids_T": "versions_T", "versions_T": "ids_T"}
    columns = [[other.get(name, name), *shape] for name, *shape in header["columns"]]
    decoded = decode(put_together(header | {"columns": columns}, items, specs, rest))
    assert decoded.items == []
    assert "not the span of a column of " in decoded.rejected[0].reason


def with_number(column: str, value: float) -> bytes:
    """The good message, the first number of the second item's part of a column replaced."""
    codes = {name: rule.code for name, rule in array_fields(Tokens)}
    names = list(codes)
    sizes = [12 * np.dtype(codes[name]).itemsize for name in names]
    starts = np.cumsum([0, *[size + -size % 8 for size in sizes]])
    at = int(starts[names.index(column)]) + 6 * np.dtype(codes[column]).itemsize
    number = np.array([value]).astype(codes[column]).tobytes()
    return put_together(HEADER, ITEMS, SPECS, COLUMNS[:at] + number + COLUMNS[at + len(number) :])


@pytest.mark.parametrize(
    ("column", "value", "reason"),
    [
        ("ids_T", -1, "ids_T: expected token ids of at least 0, got -1 at position 0"),
        ("mask_T", 2, "mask_T: expected only 0 and 1, got 2 at position 0"),
        ("versions_T", -2, "versions_T: expected policy versions of at least -1, got -2"),
        ("logprobs_T", np.nan, "logprobs_T: expected finite logprobs of at most 0, got nan"),
        ("logprobs_T", np.inf, "logprobs_T: expected finite logprobs of at most 0, got inf"),
        ("logprobs_T", -np.inf, "logprobs_T: expected finite logprobs of at most 0, got -inf"),
        ("logprobs_T", 0.5, "logprobs_T: expected finite logprobs of at most 0, got 0.5"),
    ],
)
def test_a_number_out_of_range_is_its_items_fault(column: str, value: float, reason: str) -> None:
    decoded = decode(with_number(column, value))
    assert len(decoded.items) == 1
    assert decoded.rejected[0].reason.startswith(f"item 1: transcript.tokens: {reason}")


def test_a_rejected_item_is_a_message_of_its_own_that_can_be_mended() -> None:
    """A person sees it among the dead letters, mends the cause, and publishes it again."""
    [rejected] = decode(with_number("ids_T", -1)).rejected
    [again] = decode(rejected.body).rejected
    assert again.reason == rejected.reason.replace("item 1", "item 0")
    header, items, specs, columns = take_apart(rejected.body)
    mended = put_together(header, items, specs, columns.replace(b"\xff" * 4, bytes(4), 1))
    assert to_plain(decode(mended).items[0])["transcript"]["tokens"]["mask_T"] == [0, 0, 0, 1, 1, 1]


@pytest.mark.parametrize(
    ("number", "reason"),
    [(99, "the message has no text 99"), (-1, "expected a number of at least 0"), ("0", "spec")],
)
def test_a_spec_that_the_message_has_not(number: object, reason: str) -> None:
    items = [ITEMS[0] | {"spec": number}, ITEMS[1]]
    decoded = decode(put_together(HEADER, items, SPECS, COLUMNS))
    assert len(decoded.items) == 1
    assert decoded.rejected[0].reason.startswith("item 0: spec: ")
    assert reason in decoded.rejected[0].reason


def test_a_bad_spec_is_told_by_item_and_field_each_time_it_comes() -> None:
    broken = decode(put_together(HEADER, ITEMS, b"!" + SPECS[1:], COLUMNS)).rejected
    assert [rejected.reason[:26] for rejected in broken] == [
        f"item {index}: spec: Invalid JSON" for index in (0, 1)
    ]
    bad = SPECS.replace(b'"max_turns":4', b'"max_turns":0')
    for _ in range(2):
        [first, second] = decode(put_together(HEADER, ITEMS, bad, COLUMNS)).rejected
        assert first.reason == "item 0: spec.max_turns: expected a number of at least 1, got 0"
        assert second.reason == "item 1: spec.max_turns: expected a number of at least 1, got 0"
        assert decode(first.body).rejected[0].reason == first.reason


def test_specs_that_differ_stay_apart_and_equal_ones_travel_once() -> None:
    specs = [make_spec(member=member) for member in (0, 1, 0)]
    body = encode([make_start_episode(spec=spec) for spec in specs])
    assert len(take_apart(body)[0]["texts"]) == 2
    assert [to_plain(item)["spec"]["member"] for item in decode(body).items] == [0, 1, 0]


def test_more_specs_than_are_remembered() -> None:
    """The first are forgotten and read anew."""
    for member in (*range(MAX_REMEMBERED + 10), 0):
        item = decode(encode([make_step(spec=make_spec(member=member))])).items[0]
        assert to_plain(item)["spec"]["member"] == member


def test_a_rejected_item_leaves_the_arrays_of_its_neighbours_behind() -> None:
    large = make_step(transcript=make_transcript(10_000))
    bad = make_step().model_copy(update={"turn": 0})
    [rejected] = decode(encode([large, bad])).rejected
    assert rejected.reason == "item 1: turn: expected a number of at least 1, got 0"
    assert len(rejected.body) < 3_000


def test_a_value_that_was_not_finite_when_it_left_is_refused_when_it_arrives() -> None:
    """`model_copy` checks nothing."""
    outcome = make_episode_ended().outcome.model_copy(update={"reward": float("nan")})
    [rejected] = decode(encode([make_episode_ended(outcome=outcome)])).rejected
    assert rejected.reason == "item 0: outcome.reward: expected a number, got nothing"


@given(st.data())
def test_bytes_at_random_never_do_more_than_raise_wire_error(data: st.DataObject) -> None:
    body = bytearray(GOOD)
    for _ in range(data.draw(st.integers(1, 4))):
        body[data.draw(st.integers(0, len(body) - 1))] = data.draw(st.integers(0, 255))
    _decode_anything(bytes(body))


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63) | st.floats() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=6,
)


@given(st.sampled_from(["spec", "transcript", "turn", "finish", "envelope"]), JSON)
@example("transcript", {"tokens": [0, 1]})
@example("spec", {"environment_config": {"a": float("nan")}})
def test_json_at_random_never_does_more_than_reject(field: str, value: object) -> None:
    decoded = decode(put_together(HEADER, [ITEMS[0] | {field: value}, ITEMS[1]], SPECS, COLUMNS))
    assert len(decoded.items) + len(decoded.rejected) == 2
    assert all(_decode_anything(rejected.body) for rejected in decoded.rejected)


def _decode_anything(body: bytes) -> bool:
    try:
        decoded = decode(body)
    except WireError as error:
        return bool(str(error))
    return bool(decoded.items or decoded.rejected)


def test_an_optional_array_may_be_missing_but_not_bad() -> None:
    outcome = OpDone(version=1, logprobs_N=np.array([-1.0], np.float32))
    header, items, *_ = take_apart(encode([make_op_result(outcome=outcome)]))
    bad = np.array([1.0, 0.0], "<f4").tobytes()
    [rejected] = decode(put_together(header, items, columns=bad)).rejected
    assert rejected.reason.startswith("item 0: outcome.logprobs_N: expected finite logprobs")


@pytest.mark.parametrize("depth", [253, 254, 1000])
def test_an_item_that_is_nested_too_deeply_is_unreadable(depth: int) -> None:
    """At 253 it can be written alone, but not as the list that a message of its own has."""
    items = b'[{"envelope":' + b"[" * depth + b"]" * depth + b"}]"
    body = write((Step.kind, Step.schema_version), items, ColumnWriter())
    with pytest.raises(WireError, match=r"can't be read|not JSON"):
        decode(body)


@pytest.mark.parametrize("name", ["", "a\0b", "x" * 129, "\u00e9" * 100, "a b"])
def test_what_is_no_part_of_a_queue_s_name_is_refused_before_a_broker_sees_it(name: str) -> None:
    with pytest.raises(ValidationError):
        PolicyRef(model=ModelId("model_1"), base_model=name, min_version=0)
    with pytest.raises(ValidationError):
        Envelope(run=RunId(name))
    with pytest.raises(ValidationError):
        TypeAdapter(EntityName).validate_python(name if len(name) < 129 else name * 2)


def test_a_version_that_no_token_can_carry_is_refused() -> None:
    with pytest.raises(ValidationError, match="less than or equal to 2147483647"):
        PolicyRef(model=ModelId("model_1"), base_model="m", min_version=2**31)
