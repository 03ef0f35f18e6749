"""What a client of exact tokens may ask of a turn beside its `Sampling`, and gets beside the tokens.

Legend: `_T` tokens of one sequence, `_S` entries of tokens, those of one token after those of another.
"""

from typing import Annotated, Self

from pydantic import Field, model_validator

from warren_schemas.base import Frozen, Listed
from warren_schemas.fields.arrays import Logprobs, TokenIds

MAX_SEED = 1 << 63
MAX_TOP = 20
"""Most alternatives that are told with a token; vLLM keeps no more unless it is told to."""

EndId = Annotated[int, Field(ge=0, lt=1 << 31)]
NTop = Annotated[int, Field(ge=0, le=MAX_TOP)]


class TokenOptions(Frozen):
    end_ids: Listed[EndId] | None = None
    """Tokens that end the turn, in place of the model's own; none of them: only its limit ends it."""
    seed: Annotated[int, Field(ge=0, lt=MAX_SEED)] | None = None
    """The same seed, prompt and settings give the same tokens, as far as the engine computes alike."""
    prompt_logprobs: bool = False
    """Tell the logprobs of the prompt's tokens, without temperature and limits."""
    n_top_prompt: NTop = 0
    """Tell so many of the most probable tokens at each place of the prompt."""

    @property
    def n_top(self) -> int | None:
        """Alternatives to each token of the prompt; None where nothing is told of the prompt."""
        return self.n_top_prompt if self.prompt_logprobs or self.n_top_prompt else None


class PromptLogprobs(Frozen):
    """Of a prompt's tokens, each given those before it; nothing comes before the first, which has 0."""

    prompt_logprobs_T: Logprobs
    n_top: NTop = 0
    top_ids_S: TokenIds
    """The `n_top` most probable tokens at each place, best first; zeros at the first."""
    top_logprobs_S: Logprobs

    @model_validator(mode="after")
    def _aligned(self) -> Self:
        n = self.prompt_logprobs_T.size * self.n_top
        if not self.top_ids_S.size == self.top_logprobs_S.size == n:
            raise ValueError(f"expected {n} alternatives, got {self.top_ids_S.size}")
        return self
