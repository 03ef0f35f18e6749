"""Data -> the batch of an op. What can't be trained on is told by datum.

`_N` are the tokens of all data laid end to end.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from warren_gateway.trainable.problems import InvalidOp
from warren_schemas.config import CrossEntropyLoss, Loss
from warren_schemas.http.trainable import Datum
from warren_schemas.token_batch import TokenBatch

MOST_TOKENS = 500_000
"""An op travels as one message."""
_MOST_LINES = 8


def token_batch(data: Sequence[Datum], loss: Loss) -> TokenBatch:
    """Raises `InvalidOp`."""
    is_supervised = isinstance(loss, CrossEntropyLoss)
    lines = [
        f"data.{i}: {fault}"
        for i, datum in enumerate(data)
        for fault in _faults(datum, loss.kind, is_supervised=is_supervised)
    ]
    n_tokens = sum(datum.ids.size for datum in data)
    if not data:
        lines.append("data: there is none")
    elif n_tokens > MOST_TOKENS:
        lines.append(f"data: {n_tokens} tokens, and one op takes {MOST_TOKENS}; ask for several")
    elif not lines and all(datum.ids.size < 2 for datum in data):
        lines.append("data: no sequence has a second token, and the first is never trained on")
    if lines:
        raise InvalidOp(lines[:_MOST_LINES])
    return _joined(data, is_supervised=is_supervised)


def _faults(datum: Datum, kind: str, *, is_supervised: bool) -> list[str]:
    wanted = ("weights",) if is_supervised else ("advantages", "logprobs")
    useless = ("advantages", "logprobs") if is_supervised else ("weights",)
    faults = [f"{kind} has no use for {name}" for name in useless if _of(datum, name) is not None]
    if not is_supervised:
        faults += [f"{kind} needs {name}" for name in wanted if _of(datum, name) is None]
    n_tokens = datum.ids.size
    if n_tokens == 0:
        faults.append("it has no tokens")
    for name in (*wanted, "mask", "targets"):
        values = _of(datum, name)
        if values is not None and values.size != n_tokens:
            faults.append(f"{values.size} {name} for {n_tokens} ids")
    return faults


def _of(datum: Datum, name: str) -> "NDArray[Any] | None":
    return getattr(datum, name)


def _joined(data: Sequence[Datum], *, is_supervised: bool) -> TokenBatch:
    weights_N = np.concatenate([_weights_T(datum) for datum in data])
    logprobs_N = np.concatenate([_or_zeros_T(datum.logprobs, datum) for datum in data])
    masks = [_mask_T(datum, is_supervised=is_supervised) for datum in data]
    if not any(mask_T[1:].any() for mask_T in masks):
        masks = [np.ones(datum.ids.size, np.uint8) for datum in data]  # of no weight, and told of
    return TokenBatch(
        ids_N=np.concatenate([datum.ids for datum in data]),
        lengths_B=np.array([datum.ids.size for datum in data], np.int32),
        mask_N=np.concatenate(masks),
        logprobs_N=logprobs_N,
        weights_N=weights_N,
        targets_N=_targets_N(data),
    )


def _targets_N(data: Sequence[Datum]) -> NDArray[np.int32] | None:
    if all(datum.targets is None for datum in data):
        return None
    return np.concatenate([d.ids if d.targets is None else d.targets for d in data])


def _weights_T(datum: Datum) -> NDArray[np.float32]:
    given_T = datum.advantages if datum.weights is None else datum.weights
    return np.ones(datum.ids.size, np.float32) if given_T is None else given_T


def _or_zeros_T(values_T: NDArray[np.float32] | None, datum: Datum) -> NDArray[np.float32]:
    return np.zeros(datum.ids.size, np.float32) if values_T is None else values_T


def _mask_T(datum: Datum, *, is_supervised: bool) -> NDArray[np.uint8]:
    """Where nobody says it: tokens that have a weight; of policy losses, those that were sampled."""
    if datum.mask is not None:
        return datum.mask
    counts_T = _weights_T(datum) != 0
    if not is_supervised:
        counts_T |= _or_zeros_T(datum.logprobs, datum) != 0
    return counts_T.astype(np.uint8)
