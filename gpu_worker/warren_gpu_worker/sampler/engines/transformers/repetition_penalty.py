# pyright: reportUnknownMemberType=false
# (torch leaves parts of its interface untyped)
"""The repetition penalty: what a sequence already holds becomes less probable in it.

Keskar et al. 2019 (CTRL), section 4.1: the logit of every token that was seen is divided by the
penalty where it is positive and multiplied by it where it is negative.

Legend: `_B` rows, `_V` the vocabulary.
"""

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from warren_gpu_worker.sampler.engines.port import Request


def penalized(logits_BV: Tensor, rows: Sequence[Request]) -> Tensor:
    """The logits with the penalty of each row that has one; the same tensor where none has."""
    if all(row.sampling.repetition_penalty == 1.0 for row in rows):
        return logits_BV
    logits_BV = logits_BV.float()  # a copy, unless it is float32 already
    for index, row in enumerate(rows):
        if row.sampling.repetition_penalty != 1.0:
            _penalize(logits_BV[index], row)
    return logits_BV


def _penalize(logits_V: Tensor, row: Request) -> None:
    seen = np.unique(np.concatenate([row.prompt_ids_T, np.array(row.ids, np.int32)]))
    seen_ids = torch.from_numpy(seen.astype(np.int64)).to(logits_V.device)
    values = logits_V[seen_ids]
    penalty = row.sampling.repetition_penalty
    logits_V[seen_ids] = torch.where(values > 0, values / penalty, values * penalty)
