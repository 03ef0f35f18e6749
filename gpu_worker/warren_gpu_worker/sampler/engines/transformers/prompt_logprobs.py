# pyright: reportUnknownMemberType=false
# (transformers leaves parts of its interface untyped)
"""Logprobs of a prompt's tokens, for those who ask: one more pass over the prompt, part by part.

The parts bound the memory: the logits of a long prompt would not fit.

Legend: `_T` tokens of the prompt, `_C` those of one part, `_K` the most probable ones, `_V` the vocabulary.
"""

from typing import cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from transformers import DynamicCache, PreTrainedModel

from warren_schemas.token_options import PromptLogprobs

_PART = 256


def prompt_logprobs(model: PreTrainedModel, ids_T: NDArray[np.int32], n_top: int) -> PromptLogprobs:
    """`n_top`: how many alternatives are told with each token."""
    ids = torch.from_numpy(ids_T.astype(np.int64)).to(model.device)
    cache = DynamicCache()
    logprobs, top_ids, top_logprobs = [torch.zeros(1)], [_blank(n_top)], [_blank(n_top)]
    for start in range(0, ids_T.size - 1, _PART):
        stop = min(start + _PART, ids_T.size - 1)
        logprobs_CV = _logprobs(model, ids[start:stop], start, cache)
        next_C = ids[start + 1 : stop + 1]
        logprobs.append(logprobs_CV.gather(1, next_C[:, None])[:, 0].cpu())
        best_CK, ids_CK = logprobs_CV.topk(min(n_top, logprobs_CV.shape[1]), dim=1)
        top_logprobs.append(_padded(best_CK, n_top, _LOWEST))
        top_ids.append(_padded(ids_CK, n_top, 0))
    return PromptLogprobs(
        prompt_logprobs_T=_array(logprobs),
        n_top=n_top,
        top_ids_S=torch.cat(top_ids).flatten().numpy().astype(np.int32),
        top_logprobs_S=_array(top_logprobs),
    )


_LOWEST = -99999.0
"""Of an alternative that there is not."""


def _logprobs(model: PreTrainedModel, ids_C: Tensor, start: int, cache: DynamicCache) -> Tensor:
    """(C, V): of what comes after each token; the cache has those before `start`."""
    positions = torch.arange(start, start + ids_C.shape[0], device=ids_C.device)
    output = model(
        input_ids=ids_C[None], position_ids=positions[None], past_key_values=cache, use_cache=True
    )
    return cast(Tensor, output.logits)[0].float().log_softmax(-1)


def _blank(n_top: int) -> Tensor:
    return torch.zeros(1, n_top)


def _padded(told_CK: Tensor, n_top: int, value: float) -> Tensor:
    missing = n_top - told_CK.shape[1]
    return torch.nn.functional.pad(told_CK.cpu(), (0, missing), value=value)


def _array(parts: list[Tensor]) -> NDArray[np.float32]:
    return torch.cat(parts).flatten().clamp(min=_LOWEST, max=0.0).numpy().astype(np.float32)
