"""Several targets for each token, dense and sparse: what trainers are asked, and what their answer is told as."""

import numpy as np
import pytest
from numpy.typing import NDArray

from warren_gateway.coordinator.state.client import Asked
from warren_gateway.tinker.results import Noted, result_of
from warren_gateway.tinker.tensors import MOST_VALUES, CantTrain, table
from warren_gateway.tinker.training import asked, size_of, targets_of
from warren_gateway.tinker.wire import messages
from warren_gateway.trainable.outcomes import Done, Request
from warren_schemas.http.trainable import MAX_DATA
from warren_schemas.ids import ModelId, RunId
from warren_schemas.training import OpDone

INPUTS = [2, 5, 9]
TARGETS = [[5, 7], [0, 8], [4, 0]]
MOST_INT = (1 << 63) - 1
"""What it is from there to -2 has no 64 bits."""
WEIGHTS = [[0.25, 0.75], [0.0, 1.0], [0.5, 0.0]]


def dense(values: list[list[int]] | list[list[float]], dtype: str) -> messages.Tensor:
    made = messages.Tensor()
    array = np.array(values, dtype)
    made.dense, made.dtype = array.tobytes(), _kind(dtype)
    made.shape.extend(array.shape)
    return made


def sparse(values: list[list[int]] | list[list[float]], dtype: str) -> messages.Tensor:
    """As the SDK lists what is not 0."""
    array = np.array(values, dtype)
    made = messages.Tensor()
    made.dtype = _kind(dtype)
    made.shape.extend(array.shape)
    rows, columns = np.nonzero(array)
    made.sparse_csr.values = array[rows, columns].tobytes()
    made.sparse_csr.col_indices = columns.astype("<i8").tobytes()
    ends = np.cumsum(np.bincount(rows, minlength=len(array)), dtype=np.int64)
    made.sparse_csr.crow_indices = np.append(0, ends).astype("<i8").tobytes()
    return made


def _kind(dtype: str) -> int:
    return {"<f4": messages.FLOAT32, "<i8": messages.INT64}[dtype]


def add(request: messages.ForwardBackwardRequest, **tensors: messages.Tensor) -> None:
    datum = request.data.add()
    datum.model_input.add().encoded_text.tokens = np.array(INPUTS, "<i4").tobytes()
    for name, value in tensors.items():
        datum.loss_fn_inputs[name].CopyFrom(value)


def request_of(
    loss: str = "cross_entropy", **tensors: messages.Tensor
) -> messages.ForwardBackwardRequest:
    made = messages.ForwardBackwardRequest()
    made.loss_fn = loss
    add(made, **tensors)
    return made


@pytest.mark.parametrize("make", [dense, sparse])
def test_each_column_of_targets_is_a_sequence_of_the_same_tokens(make: type) -> None:
    request = request_of(target_tokens=make(TARGETS, "<i8"), weights=make(WEIGHTS, "<f4"))
    one, other = asked(request).data
    assert one.ids.tolist() == other.ids.tolist() == [*INPUTS, 4]
    assert one.targets is not None and other.targets is not None
    assert (one.targets.tolist(), other.targets.tolist()) == ([2, 5, 0, 4], [2, 7, 8, 0])
    assert one.weights is not None and other.weights is not None
    assert (one.weights.tolist(), other.weights.tolist()) == ([0, 0.25, 0, 0.5], [0, 0.75, 1, 0])
    assert targets_of(request) == [2]


def test_one_axis_and_a_column_of_one_are_the_same_op_and_told_apart() -> None:
    request = request_of(target_tokens=dense([[5], [9], [4]], "<i8"))
    add(request, target_tokens=table_of([5, 9, 4]))
    first, second = asked(request).data
    assert first.ids.tolist() == second.ids.tolist() == [*INPUTS, 4]
    assert first.targets is None and second.targets is None
    assert targets_of(request) == [1, 0]


def table_of(values: list[int]) -> messages.Tensor:
    made = dense([values], "<i8")
    made.shape[:] = [len(values)]
    return made


def broken(
    crow_indices: bytes | None = None, col_indices: bytes | None = None, values: bytes | None = None
) -> messages.Tensor:
    made = sparse(TARGETS, "<i8")
    csr = made.sparse_csr
    csr.crow_indices = crow_indices or csr.crow_indices
    csr.col_indices = col_indices or csr.col_indices
    csr.values = values or csr.values
    return made


def wide(n_columns: int) -> messages.Tensor:
    """Few bytes, whatever they say."""
    made = messages.Tensor()
    made.dtype = messages.INT64
    made.shape.extend([len(INPUTS), n_columns])
    made.sparse_csr.crow_indices = bytes(8 * (len(INPUTS) + 1))
    return made


def indices(*values: int) -> bytes:
    return np.array(values, "<i8").tobytes()


@pytest.mark.parametrize(
    ("tensor", "reason"),
    [
        (dense(TARGETS[:2], "<i8"), r"has the shape \[2, 2\] for 3 tokens"),
        (broken(crow_indices=indices(0, 2, 3)), "doesn't fit its 3 rows"),
        (broken(crow_indices=indices(0, 3, 2, 4)), "doesn't fit its 3 rows"),
        (broken(crow_indices=indices(1, 2, 3, 4)), "doesn't fit its 3 rows"),
        (broken(crow_indices=indices(0, 2, 3, 5)), "doesn't fit its 3 rows"),
        (broken(crow_indices=indices(0, MOST_INT, -2, 4)), "doesn't fit its 3 rows"),
        (broken(col_indices=indices(0, 1, 1)), "doesn't fit its 3 rows"),
        (broken(col_indices=indices(0, 1, 2, 0)), "outside of its 2 columns"),
        (broken(col_indices=indices(0, 1, -1, 0)), "outside of its 2 columns"),
        (broken(values=b"123"), "no whole number of values"),
    ],
)
def test_a_table_that_is_none_says_why(tensor: messages.Tensor, reason: str) -> None:
    with pytest.raises(CantTrain, match=reason):
        table(tensor, "target_tokens", len(INPUTS))
    with pytest.raises(CantTrain, match=f"data.0: .*{reason}"):
        asked(request_of(target_tokens=tensor))


def test_a_table_of_too_many_values_is_made_nothing_of() -> None:
    with pytest.raises(CantTrain, match="500000 are the most"):
        table(wide(MOST_VALUES), "weights", len(INPUTS))


def test_all_targets_of_a_request_are_counted_before_anything_is_made_of_them() -> None:
    request = request_of(target_tokens=wide(MAX_DATA))
    assert size_of(request) == (MAX_DATA, len(INPUTS) * MAX_DATA)
    add(request)
    assert size_of(request) == (MAX_DATA + 1, len(INPUTS) * (MAX_DATA + 1))
    with pytest.raises(CantTrain, match=f"{MAX_DATA + 1} sequences.*{MAX_DATA} are the most"):
        asked(request)
    wordy = request_of(target_tokens=wide(20_000))
    wordy.data[0].model_input.add().encoded_text.tokens = bytes(4 * 23)
    with pytest.raises(CantTrain, match="520000 targets, and 500000 are the most"):
        asked(wordy)


def test_whoever_counts_targets_adds_none() -> None:
    request = request_of()
    assert (size_of(request), targets_of(request)) == ((1, len(INPUTS)), [0])
    with pytest.raises(CantTrain, match="target_tokens are missing"):
        asked(request)


def test_only_cross_entropy_takes_several_targets_with_a_weight_each() -> None:
    targets = dense(TARGETS, "<i8")
    with pytest.raises(CantTrain, match="ppo takes one target for each token"):
        asked(request_of("ppo", target_tokens=targets))
    one = {name: dense(WEIGHTS, "<f4") for name in ("advantages", "logprobs")}
    with pytest.raises(CantTrain, match="advantages has 2 values for each token"):
        asked(request_of("ppo", target_tokens=table_of([5, 9, 4]), **one))
    with pytest.raises(CantTrain, match="2 target_tokens and 1 weights"):
        asked(request_of(target_tokens=targets, weights=dense([[1], [1], [1]], "<f4")))


def told(logprobs_N: NDArray[np.float32], lengths: list[int], *n_targets: int) -> bytes:
    request = Request(
        "future_1", ModelId("model_1"), RunId("run_1"), "forward", Asked(lengths=lengths)
    )
    noted = Noted(model="s:train:0", n_targets=n_targets)
    made = result_of(Done(request, OpDone(version=1, logprobs_N=logprobs_N)), noted, None)
    assert isinstance(made, bytes)
    return made


def test_logprobs_have_the_shape_of_their_targets() -> None:
    logprobs_N = -np.array([0, 1, 2, 0, 3, 4, 0, 5, 0, 6, 7, 8, 0, 9], np.float32)
    output = messages.ForwardBackwardOutput.FromString(
        told(logprobs_N, [3, 3, 2, 4, 2], 2, 0, 0, 1)
    )
    found = [
        (
            record.num_datums,
            list(record.fields["logprobs"].trailing_shape),
            np.frombuffer(record.fields["logprobs"].data, "<f4").tolist(),
            np.frombuffer(record.fields["logprobs"].offsets, "<i8").tolist(),
        )
        for record in output.loss_fn_outputs
    ]
    assert found == [
        (1, [2], [-1, -3, -2, -4], [0, 16]),
        (2, [], [-5, -6, -7, -8], [0, 4, 16]),
        (1, [1], [-9], [0, 4]),
    ]
