"""What an op trains on: sequences laid end to end, with what was sampled and what it was worth."""

from typing import Self

import numpy as np
from numpy.typing import NDArray
from pydantic import model_validator

from warren_schemas.base import Frozen
from warren_schemas.fields.arrays import Lengths, Logprobs, Mask, TokenIds, Weights
from warren_schemas.sampling_mask import SamplingMask, fault


class TokenBatch(Frozen):
    """B sequences laid end to end, N tokens in all.

    Every array refers to the token at its own position: `logprobs_N[t]` is the logprob with which
    token `ids_N[t]` was sampled given the tokens before it in its sequence. The first token of a
    sequence has nothing before it and is never trained on.
    """

    ids_N: TokenIds
    lengths_B: Lengths
    """Tokens of each sequence; they add up to N."""
    mask_N: Mask
    """1 where the token counts in the loss."""
    logprobs_N: Logprobs
    """The sampler's logprobs; ignored by cross-entropy."""
    weights_N: Weights
    """Advantage of each token (policy losses) or its weight (cross-entropy), normalized; with a
    critic, the reward that was given after the token, as it is."""
    sampling_mask: SamplingMask | None = None
    """What each token under the mask was sampled from; None: the whole vocabulary."""
    targets_N: TokenIds | None = None
    """What is trained in the place of each token, which stays what later tokens follow on; None: the token itself."""

    @property
    def trained_N(self) -> NDArray[np.int32]:
        """Whose logprobs the loss is made of."""
        return self.ids_N if self.targets_N is None else self.targets_N

    @model_validator(mode="after")
    def _aligned(self) -> Self:
        n = self.ids_N.size
        if not (self.mask_N.size == self.logprobs_N.size == self.weights_N.size == n):
            raise ValueError(
                f"arrays differ in length: {n} ids, {self.mask_N.size} mask,"
                f" {self.logprobs_N.size} logprobs, {self.weights_N.size} weights"
            )
        n_in_sequences = int(self.lengths_B.sum())
        if n_in_sequences != n or n == 0:
            raise ValueError(f"lengths add up to {n_in_sequences}, and there are {n} tokens")
        if self.targets_N is not None and self.targets_N.size != n:
            raise ValueError(f"arrays differ in length: {n} ids, {self.targets_N.size} targets")
        if wrong := fault(self.sampling_mask, self.trained_N):
            raise ValueError(wrong)
        if (
            self.sampling_mask is not None
            and not self.sampling_mask.sizes_N[self.mask_N == 1].all()
        ):
            raise ValueError("some tokens under the mask have a sampling mask and others don't")
        return self
