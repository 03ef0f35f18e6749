# pyright: reportUnknownMemberType=false
# (transformers leaves parts of its interface untyped)
"""Logprobs at the places of a prompt, for those who ask: one more pass over the prompt, part by part.

The parts bound the memory: the logits of a long prompt would not fit.

Legend: `_T` tokens of the prompt, `_C` those of one part, `_K` the most probable ones or those that were drawn, `_S` targets,
`_V` the vocabulary.
"""

from dataclasses import dataclass, field
from typing import cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from transformers import DynamicCache, PreTrainedModel

from warren_gpu_worker.sampler.engines.port import Request
from warren_gpu_worker.sampler.engines.transformers.rows import model_inputs
from warren_schemas.token_options import PromptLogprobs, Targets, TokenOptions

_PART = 256


def prompt_logprobs(
    model: PreTrainedModel, row: Request, generator: torch.Generator
) -> PromptLogprobs:
    """What the row's options ask for; `generator` draws where the row has no seed."""
    ids_T = row.prompt_ids_T
    ids = torch.from_numpy(ids_T.astype(np.int64)).to(model.device)
    inputs, _ = model_inputs(
        model, ids_T[None].astype(np.int64), np.zeros(1, np.int64), [row.pictures]
    )
    told = _Told(row.options, row.sampling.temperature, _generator_of(row, generator))
    cache = DynamicCache()
    for start in range(0, ids_T.size - 1, _PART):
        stop = min(start + _PART, ids_T.size - 1)
        logprobs_CV = _logprobs(model, inputs, slice(start, stop), cache)
        told.add(logprobs_CV, ids[start + 1 : stop + 1], start + 1)
    return told.all()


@dataclass(slots=True)
class _Told:
    """Of the places so far; of the first there is nothing to tell."""

    options: TokenOptions
    temperature: float
    generator: torch.Generator
    own: list[Tensor] = field(default_factory=lambda: [torch.zeros(1)])
    top: "_Table" = field(init=False)
    drawn: "_Table" = field(init=False)
    target_logprobs_S: NDArray[np.float32] = field(init=False)

    def __post_init__(self) -> None:
        self.top, self.drawn = (
            _Table(self.options.n_top_prompt),
            _Table(self.options.n_drawn_prompt),
        )
        targets = self.options.targets
        self.target_logprobs_S = np.zeros(targets.places_S.size if targets else 0, np.float32)

    def add(self, logprobs_CV: Tensor, next_C: Tensor, place: int) -> None:
        """`place`: of the first token of `next_C`, that of the prompt."""
        self.own.append(logprobs_CV.gather(1, next_C[:, None])[:, 0].cpu())
        n_top = min(self.top.n, logprobs_CV.shape[1])
        self.top.add(*logprobs_CV.topk(n_top, dim=1))
        if self.drawn.n:
            ids_CK = drawn(logprobs_CV, self.temperature, self.drawn.n, self.generator)
            self.drawn.add(logprobs_CV.gather(1, ids_CK), ids_CK)
        if self.options.targets is not None:
            self._score(self.options.targets, logprobs_CV, place)

    def _score(self, targets: Targets, logprobs_CV: Tensor, place: int) -> None:
        rows_S = targets.places_S - place
        is_here_S = (rows_S >= 0) & (rows_S < logprobs_CV.shape[0])
        where = (rows_S[is_here_S], targets.target_ids_S[is_here_S])
        rows, ids = (
            torch.from_numpy(each.astype(np.int64)).to(logprobs_CV.device) for each in where
        )
        self.target_logprobs_S[is_here_S] = _array([logprobs_CV[rows, ids].cpu()])

    def all(self) -> PromptLogprobs:
        return PromptLogprobs(
            prompt_logprobs_T=_array(self.own),
            n_top=self.top.n,
            top_ids_S=self.top.ids_S,
            top_logprobs_S=_array(self.top.logprobs),
            n_drawn=self.drawn.n,
            drawn_ids_S=self.drawn.ids_S,
            drawn_logprobs_S=_array(self.drawn.logprobs),
            target_logprobs_S=self.target_logprobs_S,
        )


class _Table:
    """`n` tokens at each place with their logprobs; zeros at the first."""

    def __init__(self, n: int) -> None:
        self.n = n
        self.ids = [torch.zeros(1, n, dtype=torch.int64)]
        self.logprobs = [torch.zeros(1, n)]

    def add(self, logprobs_CK: Tensor, ids_CK: Tensor) -> None:
        self.logprobs.append(_padded(logprobs_CK, self.n, _LOWEST))
        self.ids.append(_padded(ids_CK, self.n, 0))

    @property
    def ids_S(self) -> NDArray[np.int32]:
        return torch.cat(self.ids).flatten().numpy().astype(np.int32)


_LOWEST = -99999.0
"""Of an alternative that there is not."""


def drawn(logprobs_CV: Tensor, temperature: float, n: int, generator: torch.Generator) -> Tensor:
    """(C, K): `n` tokens for each row, each drawn anew from all of its distribution; the most probable one at 0."""
    if temperature == 0:
        return logprobs_CV.argmax(-1, keepdim=True).expand(-1, n)
    cumulated_CV = (logprobs_CV / temperature).softmax(-1).cumsum(-1)
    places_CK = torch.rand(
        (logprobs_CV.shape[0], n), generator=generator, device=logprobs_CV.device
    )
    all_C1 = cumulated_CV[:, -1:].contiguous()
    below_C1 = torch.nextafter(all_C1, torch.zeros_like(all_C1))  # none that has no probability
    found_CK = torch.searchsorted(cumulated_CV, (places_CK * all_C1).minimum(below_C1), right=True)
    return found_CK.clamp(max=logprobs_CV.shape[1] - 1)


def _generator_of(row: Request, generator: torch.Generator) -> torch.Generator:
    """A row with a seed draws the same, whoever came before it."""
    seed = row.options.seed
    return generator if seed is None else torch.Generator(generator.device).manual_seed(seed)


def _logprobs(
    model: PreTrainedModel, inputs: dict[str, Tensor], part: slice, cache: DynamicCache
) -> Tensor:
    """(C, V): of what comes after each token of this part; the cache has those before it."""
    taken = {
        name: tensor[:, part] if name == "inputs_embeds" else tensor[..., part]
        for name, tensor in inputs.items()
    }
    output = model(**taken, past_key_values=cache, use_cache=True)
    return cast(Tensor, output.logits)[0].float().log_softmax(-1)


def _padded(told_CK: Tensor, n: int, value: float) -> Tensor:
    missing = n - told_CK.shape[1]
    return torch.nn.functional.pad(told_CK.cpu(), (0, missing), value=value)


def _array(parts: list[Tensor]) -> NDArray[np.float32]:
    """In the range of logprobs; where weights are broken, the turn itself is refused for it."""
    flat = torch.cat(parts).flatten().nan_to_num(nan=_LOWEST)
    return flat.clamp(min=_LOWEST, max=0.0).numpy().astype(np.float32)
