"""From trajectories to micro-batches that fit into messages.

Suffix legend: `_T` tokens of one sequence, `_N` tokens of a batch laid end to end, `_B` sequences.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from warren_schemas.training import TokenBatch
from warren_schemas.transcript import Tokens

MICRO_BATCH_BYTES = 1024 * 1024
BYTES_PER_TOKEN = 13
"""Ids, logprobs and weights of 4 bytes each, and the mask."""


@dataclass(frozen=True, slots=True)
class Datum:
    """One sequence and the weight of each of its tokens, 0 where none was sampled."""

    tokens: Tokens
    weights_T: NDArray[np.float32]
    temperature: float = 1.0
    """With which its tokens were sampled."""


def by_temperature(data: Sequence[Datum]) -> dict[float, list[Datum]]:
    """The data by the temperature of its environment: one op has one."""
    parts: dict[float, list[Datum]] = {}
    for datum in data:
        parts.setdefault(datum.temperature, []).append(datum)
    return parts


def token_batches(data: Sequence[Datum]) -> list[TokenBatch]:
    """Micro-batches of at most `MICRO_BATCH_BYTES` (a longer sequence travels alone)."""
    return [_token_batch(part) for part in _parts(data)]


def _parts(data: Iterable[Datum]) -> Iterable[list[Datum]]:
    part: list[Datum] = []
    size_bytes = 0
    for datum in data:
        datum_bytes = len(datum.tokens) * BYTES_PER_TOKEN
        if part and size_bytes + datum_bytes > MICRO_BATCH_BYTES:
            yield part
            part, size_bytes = [], 0
        part.append(datum)
        size_bytes += datum_bytes
    if part:
        yield part


def _token_batch(data: list[Datum]) -> TokenBatch:
    lengths_B = np.array([len(d.tokens) for d in data], np.int32)
    mask_N = np.concatenate([d.tokens.mask_T for d in data])
    return TokenBatch(
        ids_N=np.concatenate([d.tokens.ids_T for d in data]),
        lengths_B=lengths_B,
        mask_N=mask_N,
        logprobs_N=np.concatenate([d.tokens.logprobs_T for d in data]),
        weights_N=np.concatenate([d.weights_T for d in data]),
    )
