"""The protocol's tensors -> arrays with a row for each token of the input, dense ones and sparse ones.

Legend: `_T` tokens, `_K` values of each, `_N` values that a sparse tensor lists.
"""

from typing import cast

import numpy as np
from numpy.typing import NDArray

from warren_gateway.tinker.wire import messages

MOST_VALUES = 500_000
"""Of a table, however few of them are listed."""
_DTYPES = {messages.FLOAT32: "<f4", messages.INT64: "<i8", messages.INT32: "<i4"}


class CantTrain(ValueError):
    """No trainer can do this; says why."""


def n_columns(tensor: messages.Tensor) -> int:
    """Of each token; 0 for a tensor of one axis."""
    return tensor.shape[1] if len(tensor.shape) == 2 else 0


def table(tensor: messages.Tensor, name: str, n_tokens: int) -> "NDArray[np.generic]":
    """[T, K], where K is 1 for a tensor of one axis. Raises `CantTrain`."""
    if tensor.dtype not in _DTYPES:
        raise CantTrain(f"{name} has a data type that is not offered; there are float32 and int64")
    if len(tensor.shape) > 2:
        raise CantTrain(f"{name} has {len(tensor.shape)} axes; tokens and targets are the most")
    width = n_columns(tensor) or 1
    if tensor.shape and (tensor.shape[0] != n_tokens or min(tensor.shape) < 1):
        raise CantTrain(f"{name} has the shape {list(tensor.shape)} for {n_tokens} tokens")
    if n_tokens * width > MOST_VALUES:
        raise CantTrain(f"{name} has {n_tokens} x {width} values, and {MOST_VALUES} are the most")
    if tensor.WhichOneof("encoding") == "sparse_csr":
        return _of_sparse(tensor, name, (n_tokens, width))
    values = decoded(tensor.dense, _DTYPES[tensor.dtype], name)
    if values.size != n_tokens * width:
        raise CantTrain(f"{name} has {values.size} values for {n_tokens} tokens")
    return values.reshape(n_tokens, width)


def _of_sparse(tensor: messages.Tensor, name: str, shape: tuple[int, int]) -> "NDArray[np.generic]":
    """What is not listed is 0."""
    sparse, (n_tokens, width) = tensor.sparse_csr, shape
    values_N = decoded(sparse.values, _DTYPES[tensor.dtype], name)
    columns_N = decoded(sparse.col_indices, "<i8", name).astype(np.int64)
    ends = decoded(sparse.crow_indices, "<i8", name).astype(np.int64)
    fits = ends.size == n_tokens + 1 and ends[0] == 0 and ends[-1] == values_N.size
    if not fits or columns_N.size != values_N.size or (ends[1:] < ends[:-1]).any():
        raise CantTrain(f"{name}: what it lists doesn't fit its {n_tokens} rows")
    sizes_T = np.diff(ends)  # of what rises from 0: others have differences that overflow
    if ((columns_N < 0) | (columns_N >= width)).any():
        raise CantTrain(f"{name} lists what is outside of its {width} columns")
    dense_TK = np.zeros(shape, values_N.dtype)
    dense_TK[np.repeat(np.arange(n_tokens), sizes_T), columns_N] = values_N
    return dense_TK


def decoded(data: bytes, dtype: str, name: str) -> "NDArray[np.generic]":
    """Raises `CantTrain`."""
    try:
        return cast("NDArray[np.generic]", np.frombuffer(data, dtype))
    except ValueError as error:
        raise CantTrain(f"{name}: {len(data)} bytes are no whole number of values") from error
