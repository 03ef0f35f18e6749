"""Array fields take exactly what their rule allows, and say what else they were given."""

from typing import Any

import numpy as np
import pytest
from pydantic import ValidationError
from tests.support.factories import make_token_batch, make_tokens

from warren_schemas.token_batch import TokenBatch
from warren_schemas.transcript import Tokens


def test_an_array_becomes_read_only_without_a_copy() -> None:
    ids_T = np.zeros(6, np.int32)
    tokens = make_tokens(ids_T=ids_T)
    assert np.shares_memory(tokens.ids_T, ids_T)
    assert not tokens.ids_T.flags.writeable
    assert ids_T.flags.writeable


def test_every_second_number_of_an_array_becomes_contiguous() -> None:
    tokens = make_tokens(3, ids_T=np.arange(6, dtype=np.int32)[::2])
    assert tokens.ids_T.flags.c_contiguous
    assert tokens.ids_T.tolist() == [0, 2, 4]


def test_lists_become_arrays_and_arrays_lists() -> None:
    fields: dict[str, object] = {
        "ids_T": [1, 2], "mask_T": [0, 1], "logprobs_T": [0, -0.5], "versions_T": [-1, 3],
        "sampling_mask": {"sizes_N": [0, 3], "ids_S": [4, 2, 9]},
    }  # fmt: skip
    tokens = Tokens.model_validate(fields)
    assert tokens.ids_T.dtype == np.int32
    assert tokens.model_dump(mode="json") == fields
    assert Tokens.model_validate_json(tokens.model_dump_json()).logprobs_T.tolist() == [0, -0.5]


def test_no_tokens_at_all_are_fine() -> None:
    empty: list[int] = []
    arrays = dict.fromkeys(("ids_T", "mask_T", "logprobs_T", "versions_T"), empty)
    assert len(Tokens.model_validate(arrays)) == 0
    masked = arrays | {"sampling_mask": {"sizes_N": empty, "ids_S": empty}}
    assert len(Tokens.model_validate(masked)) == 0


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"ids_T": np.array([0, -1], np.int32)}, "token ids of at least 0, got -1 at position 1"),
        ({"ids_T": np.zeros(2, np.int64)}, "an array of int32, got int64"),
        ({"ids_T": np.zeros((1, 2), np.int32)}, "one dimension, got 2"),
        ({"ids_T": np.zeros(2, ">i4")}, "an array of int32"),
        ({"ids_T": [1.5, 2]}, "integers that fit int32"),
        ({"ids_T": [2**40, 2]}, "integers that fit int32"),
        ({"ids_T": ["1", "2"]}, "a list of numbers"),
        ({"ids_T": [True, False]}, "a list of numbers"),
        ({"ids_T": [[1], [2, 3]]}, "inhomogeneous"),
        ({"ids_T": {"a": 1}}, "a list of numbers"),
        ({"ids_T": None}, "a list of numbers"),
        ({"ids_T": 5}, "one dimension, got 0"),
        ({"mask_T": np.array([0, 2], np.uint8)}, "only 0 and 1, got 2 at position 1"),
        ({"mask_T": [0, 256]}, "integers that fit uint8"),
        ({"logprobs_T": np.array([0, np.nan], np.float32)}, "got nan at position 1"),
        ({"logprobs_T": np.array([-np.inf, 0], np.float32)}, "got -inf at position 0"),
        ({"logprobs_T": np.array([0.5, 0], np.float32)}, "logprobs of at most 0, got 0.5"),
        ({"logprobs_T": [-1e300, 0]}, "got -inf at position 0"),
        ({"versions_T": np.array([-2, 0], np.int32)}, "versions of at least -1, got -2"),
        ({"mask_T": np.zeros(3, np.uint8)}, "differ in length: 2 ids, 3 mask, 2 logprobs"),
    ],
)
def test_what_breaks_a_rule_is_named(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        make_tokens(2, **changes)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("n_tokens", [1, 2, 3, 7, 8, 9, 64, 65, 1000])
def test_a_number_that_is_not_finite_is_found_wherever_it_is(bad: float, n_tokens: int) -> None:
    """Rules look at the smallest and the largest only, so NaN must count as either."""
    for position in {0, n_tokens // 2, n_tokens - 1}:
        weights_N = np.zeros(n_tokens, np.float32)
        weights_N[position] = bad
        with pytest.raises(ValidationError, match=f"finite weights, got .* position {position}"):
            make_token_batch(n_tokens, weights_N=weights_N)


@pytest.mark.parametrize(
    ("lengths", "message"),
    [([3, 3], "lengths add up to 6, and there are 5"), ([5, 0], "lengths of at least 1, got 0")],
)
def test_lengths_add_up_to_the_tokens(lengths: list[int], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        make_token_batch(3, 2, lengths_B=np.array(lengths, np.int32))


def test_a_batch_holds_at_least_one_sequence() -> None:
    arrays = TokenBatch.model_fields.keys() - {"sampling_mask"}
    none: dict[str, list[int]] = {name: [] for name in arrays}
    with pytest.raises(ValidationError, match="there are 0 tokens"):
        make_token_batch(**none)
