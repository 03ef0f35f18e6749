"""From trajectories to micro-batches that fit into messages.

Suffix legend: `_T` tokens of one sequence, `_N` tokens of a batch laid end to end, `_B` sequences.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from warren_schemas.episode import EpisodeEnded
from warren_schemas.sampling_mask import SamplingMask
from warren_schemas.token_batch import TokenBatch
from warren_schemas.transcript import Tokens

MICRO_BATCH_BYTES = 1024 * 1024


@dataclass(frozen=True, slots=True)
class WaySampled:
    """How tokens were sampled, as far as one op has to be told: all data of an op were sampled alike."""

    temperature: float = 1.0
    repetition_penalty: float = 1.0
    is_truncated: bool = False

    @staticmethod
    def of(item: EpisodeEnded) -> "WaySampled":
        sampling = item.spec.sampling
        sequences = item.transcript.sequences
        is_truncated = any(tokens.sampling_mask is not None for tokens in sequences)
        return WaySampled(sampling.temperature, sampling.repetition_penalty, is_truncated)


@dataclass(frozen=True, slots=True)
class Datum:
    """One sequence and the weight of each of its tokens, 0 where none was sampled."""

    tokens: Tokens
    weights_T: NDArray[np.float32]
    way: WaySampled = WaySampled()


def by_way_sampled(data: Sequence[Datum]) -> dict[WaySampled, list[Datum]]:
    """Environments may have settings of their own."""
    parts: dict[WaySampled, list[Datum]] = {}
    for datum in data:
        parts.setdefault(datum.way, []).append(datum)
    return parts


def token_batches(data: Sequence[Datum]) -> list[TokenBatch]:
    """Micro-batches of at most `MICRO_BATCH_BYTES` (a longer sequence travels alone)."""
    return [_token_batch(part) for part in _parts(data)]


def _parts(data: Iterable[Datum]) -> Iterable[list[Datum]]:
    part: list[Datum] = []
    size_bytes = 0
    for datum in data:
        datum_bytes = datum.tokens.size_bytes
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
    masks = [d.tokens.sampling_mask for d in data if d.tokens.sampling_mask is not None]
    return TokenBatch(
        ids_N=np.concatenate([d.tokens.ids_T for d in data]),
        lengths_B=lengths_B,
        mask_N=mask_N,
        logprobs_N=np.concatenate([d.tokens.logprobs_T for d in data]),
        weights_N=np.concatenate([d.weights_T for d in data]),
        sampling_mask=SamplingMask.joined(masks) if masks else None,
    )
