"""Tokens of which a client wants to know the logprobs, whatever stands in the prompt: named by it, or drawn for it.

The client's tensors have a row for each token of the prompt but the first, to which nothing comes before.

Legend: `_N` cells of a tensor that are sent, by rows; `_R` its rows; `_S` those of them that ask for something.
"""

import numpy as np
from numpy.typing import NDArray
from pydantic import JsonValue, ValidationError

from warren_gateway.tinker.samples.answering import CantSample
from warren_gateway.tinker.wire import messages
from warren_schemas.text.explain import explain
from warren_schemas.tinker.requests import TargetTokens
from warren_schemas.token_options import MAX_TARGETS, PromptLogprobs, Targets

_NAME = "target_prompt_logprobs"


def targets_of(value: JsonValue) -> Targets:
    """Raises `CantSample`."""
    asked = _read(value)
    n_rows, n_columns = asked.shape
    if n_rows * n_columns > MAX_TARGETS:
        raise CantSample(
            f"{_NAME} has {n_rows} x {n_columns} cells, and {MAX_TARGETS} are the most"
        )
    ids_N, rows_N = np.array(asked.data, np.int32), _rows(asked)
    if ids_N.size != rows_N.size:
        raise CantSample(f"{_NAME} has {ids_N.size} values for {rows_N.size} cells")
    is_asked_N = ids_N >= 0
    if not is_asked_N.any():
        raise CantSample(f"{_NAME} names no token")
    return Targets(
        n_tokens=n_rows + 1,
        places_S=(rows_N + 1)[is_asked_N].astype(np.int32),
        target_ids_S=ids_N[is_asked_N],
    )


def _read(value: JsonValue) -> TargetTokens:
    try:
        return TargetTokens.model_validate(value)
    except ValidationError as error:
        raise CantSample(f"{_NAME}: {'; '.join(explain(error))}") from error


def _rows(asked: TargetTokens) -> NDArray[np.int64]:
    """The row of each cell that is sent. Raises `CantSample`."""
    n_rows, n_columns = asked.shape
    if asked.sparse_crow_indices is None or asked.sparse_col_indices is None:
        return np.repeat(np.arange(n_rows), n_columns)
    columns_N = np.array(asked.sparse_col_indices, np.int64)
    ends = np.array(asked.sparse_crow_indices, np.int64)
    sizes_R = np.diff(ends)
    fits = ends.size == n_rows + 1 and ends[0] == 0 and ends[-1] == columns_N.size
    if not fits or (sizes_R < 0).any() or (columns_N >= n_columns).any():
        raise CantSample(f"{_NAME}: what it lists doesn't fit {n_rows} rows of {n_columns} columns")
    return np.repeat(np.arange(n_rows), sizes_R)


def tell_targets(
    tensor: messages.Tensor, value: JsonValue, target_logprobs_S: NDArray[np.float32]
) -> None:
    """In the form in which they were asked for; 0 where nothing was."""
    asked = _read(value)
    logprobs_N = np.zeros(len(asked.data), "<f4")
    logprobs_N[np.array(asked.data, np.int32) >= 0] = target_logprobs_S
    tensor.dtype = messages.FLOAT32
    tensor.shape.extend(asked.shape)
    if asked.sparse_crow_indices is None or asked.sparse_col_indices is None:
        tensor.dense = logprobs_N.tobytes()
        return
    tensor.sparse_csr.values = logprobs_N.tobytes()
    tensor.sparse_csr.crow_indices = np.array(asked.sparse_crow_indices, "<i8").tobytes()
    tensor.sparse_csr.col_indices = np.array(asked.sparse_col_indices, "<i8").tobytes()


def tell_drawn(told: messages.PromptAltTokens, prompt: PromptLogprobs) -> None:
    n_drawn = prompt.n_drawn
    shape = (prompt.prompt_logprobs_T.size - 1, n_drawn)
    for tensor, dtype in ((told.tokens, messages.INT64), (told.logprobs, messages.FLOAT32)):
        tensor.dtype = dtype
        tensor.shape.extend(shape)
    told.tokens.dense = prompt.drawn_ids_S[n_drawn:].astype("<i8").tobytes()
    told.logprobs.dense = prompt.drawn_logprobs_S[n_drawn:].astype("<f4").tobytes()
