# pyright: reportUnknownMemberType=false
# (torch leaves parts of its interface untyped)
"""Sampling masks of vLLM's tokens: requests that keep theirs are truncated here and not by vLLM.

vLLM tells logprobs, and not what it sampled from; which tokens are tied at its threshold no logprobs
tell. (Its own `return_sampling_mask` needs its second model runner, top-k, and has no min-p.) A logits
processor that leaves the most probable token alone comes after the temperature and before vLLM's own
top-k and top-p, which are off for these requests; the logprobs that vLLM tells are those of what
it gets from here.

Invariant: the set that is known of a request is that of its newest token. A row that is computed
without being sampled from (a part of a prompt) is overwritten before the first token comes.

Legend: `_B` rows of a batch, `_F` those that keep their mask, `_V` the vocabulary.
"""

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from vllm import SamplingParams
from vllm.config import VllmConfig
from vllm.v1.sample.logits_processor import BatchUpdate, LogitsProcessor
from vllm.v1.sample.logits_processor.builtin import process_dict_updates

from warren_gpu_worker.sampler.engines.port import Request
from warren_gpu_worker.sampler.engines.truncation import Limits, truncated
from warren_schemas.config import Sampling
from warren_schemas.fields.limits import MAX_KEPT

_KEY = "warren_mask"


@dataclass(slots=True, eq=False)
class Kept:
    """What keeps the mask of a request."""

    sampling: Sampling
    newest: NDArray[np.int32] | None = None
    """What its newest token was sampled from."""


class KeptSets:
    """The requests that keep their masks, by id."""

    def __init__(self) -> None:
        self._kept: dict[int, Kept] = {}

    def keep(self, request_id: int, sampling: Sampling) -> dict[str, int]:
        """From now on; what vLLM must be told with the request."""
        self._kept[request_id] = Kept(sampling)
        return {_KEY: request_id}

    def arguments_of(self, request: Request) -> dict[str, int] | None:
        """`keep` for a request that keeps its masks; None for one that doesn't."""
        keeps = request.mask_capacity is not None
        return self.keep(request.id, request.sampling) if keeps else None

    def newest(self, request_id: int) -> NDArray[np.int32] | None:
        kept = self._kept.get(request_id)
        return None if kept is None else kept.newest

    def forget(self, request_id: int) -> None:
        self._kept.pop(request_id, None)

    def of(self, params: SamplingParams) -> Kept | None:
        """Of the request that vLLM was told of with these."""
        request_id = (params.extra_args or {}).get(_KEY)
        return None if request_id is None else self._kept.get(request_id)


def _truncate(logits_BV: Tensor, rows: dict[int, Kept]) -> None:
    """Cut these rows in place, and note what is left."""
    limits = Limits.of(
        [kept.sampling for kept in rows.values()], [MAX_KEPT] * len(rows), logits_BV.device
    )
    rows_F = torch.tensor(list(rows), device=logits_BV.device)
    logprobs_FV = logits_BV[rows_F].log_softmax(-1)
    is_broken_F = logprobs_FV.isnan().any(-1)
    left = truncated(logprobs_FV.nan_to_num(nan=0.0), limits)
    left.put(logprobs_FV)
    logits_BV[rows_F] = logprobs_FV.masked_fill(is_broken_F[:, None], torch.nan)
    for kept, ids in zip(rows.values(), left.sets(), strict=True):
        kept.newest = ids


def mask_processor(kept_sets: KeptSets) -> type[LogitsProcessor]:
    """The class that vLLM makes its processor of."""

    class MaskProcessor(LogitsProcessor):
        def __init__(self, _: VllmConfig, device: torch.device, is_pin_memory: bool) -> None:
            self._rows: dict[int, Kept] = {}

        def is_argmax_invariant(self) -> bool:
            return True

        def update_state(self, batch_update: BatchUpdate | None) -> None:
            process_dict_updates(
                self._rows, batch_update, lambda params, prompt, ids: kept_sets.of(params)
            )

        def apply(self, logits: Tensor) -> Tensor:
            if self._rows:
                _truncate(logits, self._rows)
            return logits

    return MaskProcessor
