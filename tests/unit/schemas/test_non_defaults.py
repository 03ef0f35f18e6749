"""What is at its default is told by its absence, and everything else is told."""

from typing import Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.factories import make_generate, make_spec, make_transcript, to_plain

from warren_schemas.base import Frozen
from warren_schemas.codec.wire import decode, encode
from warren_schemas.episode import Generate
from warren_schemas.episode_times import NO_TIMES, EpisodeTimes
from warren_schemas.fields.non_defaults import default_values, non_defaults, unique_defaults
from warren_schemas.fields.spec_texts import text_of
from warren_schemas.transcript import Transcript


class Kinds(Frozen):
    kind: Literal["first"] = "first"
    mode: Literal["a", "b"] = "a"
    needed: int
    rate: float = 1.0
    names: tuple[str, ...] = ("a",)


def test_what_is_needed_and_what_tells_a_union_apart_is_always_told() -> None:
    assert non_defaults(Kinds(needed=0)) == {"kind": "first", "needed": 0}
    everything = Kinds(needed=1, mode="b", rate=0.5, names=("x",))
    assert non_defaults(everything) == everything.model_dump()


def test_defaults_that_stand_for_their_value_by_identity() -> None:
    class Some(Frozen):
        none: int | None = None
        no: bool = False
        one: int = 1
        empty: str = ""
        nothing: tuple[int, ...] = ()
        large: int = 100_000
        zero: float = 0.0
        word: str = "sum"
        listed: tuple[int, ...] = (1,)
        needed: int

    assert unique_defaults(Some).keys() == {"none", "no", "one", "empty", "nothing"}
    assert default_values(Transcript) == {"times": NO_TIMES.model_dump()}


def test_a_model_that_may_be_missing_is_not_looked_into() -> None:
    class May(Frozen):
        times: EpisodeTimes | None = NO_TIMES

    assert default_values(May) == {}


seconds = st.sampled_from([0.0, 0.5])
times = st.builds(EpisodeTimes, reset_s=seconds, step_s=seconds)
changes = st.fixed_dictionaries(
    {
        "times": times,
        "tokenizer": st.sampled_from(["", "t"]),
        "task_number": st.sampled_from([None, 0, 1]),
        "category": st.sampled_from([None, "c"]),
        "branch": st.sampled_from([0, 1]),
    }
)


@given(changes)
def test_what_is_left_out_comes_back(changed: dict[str, Any]) -> None:
    item = make_generate(transcript=make_transcript(**changed))
    body = encode([item])
    [back] = decode(body).items
    assert isinstance(back, Generate)
    assert to_plain(back) == to_plain(item)
    assert encode([back]) == body


@pytest.mark.parametrize("at", ["defaults", "others"])
def test_a_spec_tells_its_text_and_no_default(at: str) -> None:
    spec = make_spec() if at == "defaults" else make_spec(max_turns=3, secrets=["A"])
    text = text_of(spec)
    assert type(spec).model_validate_json(text, strict=True) == spec
    assert (b"secrets" in text) == (at == "others")
    assert b"null" not in text
