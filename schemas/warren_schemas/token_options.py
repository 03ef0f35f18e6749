"""What a client of exact tokens may ask of a turn beside its `Sampling`, and gets beside the tokens.

Legend: `_T` tokens of one sequence, `_S` entries of tokens, those of one token after those of another.
"""

from typing import Annotated, Self

import numpy as np
from pydantic import Field, model_validator

from warren_schemas.base import Frozen, Listed
from warren_schemas.fields.arrays import Logprobs, Places, TokenIds

MAX_SEED = 1 << 63
MAX_TOP = 20
"""Most alternatives that are told with a token; vLLM keeps no more unless it is told to."""

MAX_TARGETS = 500_000
"""Most tokens of which the logprobs are asked for beside those of a prompt."""

EndId = Annotated[int, Field(ge=0, lt=1 << 31)]
NTop = Annotated[int, Field(ge=0, le=MAX_TOP)]


class ImagePlace(Frozen):
    n_before: Annotated[int, Field(ge=0)]
    """So many tokens of the prompt come before the image; its own are not among them."""
    n_expected: Annotated[int, Field(ge=0)] | None = None
    """So many tokens its asker expects it to have; with another number it is refused."""


class PromptWithImages(Frozen):
    """Tokens, and where among them the images of the one message stand, in their order.

    Only who has the model knows which token stands for an image, and how often: so the images' own are put in there.
    """

    ids_T: TokenIds
    images: Listed[ImagePlace]

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        places = [image.n_before for image in self.images]
        if places != sorted(places) or max(places, default=0) > self.ids_T.size:
            raise ValueError(f"the images stand in no order among {self.ids_T.size} tokens")
        return self


class Targets(Frozen):
    """Tokens of which the logprobs are wanted at places of a prompt, whatever stands there."""

    n_tokens: Annotated[int, Field(ge=2)]
    """Of the prompt, with those of its images; for another one they are refused."""
    places_S: Places
    """Of the tokens in whose stead they would be; before the first comes nothing."""
    target_ids_S: TokenIds

    @model_validator(mode="after")
    def _aligned(self) -> Self:
        n = self.target_ids_S.size
        if self.places_S.size != n or not 1 <= n <= MAX_TARGETS:
            raise ValueError(f"expected 1 to {MAX_TARGETS} targets with a place each, got {n}")
        if int(self.places_S.max()) >= self.n_tokens:
            raise ValueError(f"a target stands behind the {self.n_tokens} tokens of the prompt")
        return self


class TokenOptions(Frozen):
    end_ids: Listed[EndId] | None = None
    """Tokens that end the turn, in place of the model's own; none of them: only its limit ends it."""
    seed: Annotated[int, Field(ge=0, lt=MAX_SEED)] | None = None
    """The same seed, prompt and settings give the same tokens, as far as the engine computes alike."""
    prompt_logprobs: bool = False
    """Tell the logprobs of the prompt's tokens, without temperature and limits."""
    n_top_prompt: NTop = 0
    """Tell so many of the most probable tokens at each place of the prompt."""
    n_drawn_prompt: NTop = 0
    """Draw so many tokens at each place of the prompt, by the turn's temperature alone, and tell their logprobs."""
    targets: Targets | None = None
    """Tell their logprobs."""
    prompt: PromptWithImages | None = None
    """The prompt of a plain turn that has images, in place of its text."""

    @property
    def n_top(self) -> int | None:
        """Alternatives to each token of the prompt; None where nothing is told of the prompt."""
        tells = self.prompt_logprobs or self.n_top_prompt or self.asks_for_chosen
        return self.n_top_prompt if tells else None

    @property
    def asks_for_chosen(self) -> bool:
        """Whether logprobs are wanted of tokens that are neither in the prompt nor most probable."""
        return bool(self.n_drawn_prompt) or self.targets is not None


class PromptLogprobs(Frozen):
    """Of a prompt's tokens, each given those before it; nothing comes before the first, which has 0."""

    prompt_logprobs_T: Logprobs
    n_top: NTop = 0
    top_ids_S: TokenIds
    """The `n_top` most probable tokens at each place, best first; zeros at the first."""
    top_logprobs_S: Logprobs
    n_drawn: NTop = 0
    drawn_ids_S: TokenIds = Field(default_factory=lambda: _NO_IDS)
    """The `n_drawn` tokens that were drawn at each place, the same one perhaps several times; zeros at the first."""
    drawn_logprobs_S: Logprobs = Field(default_factory=lambda: _NO_LOGPROBS)
    """Without temperature."""
    target_logprobs_S: Logprobs = Field(default_factory=lambda: _NO_LOGPROBS)
    """Of the targets that were asked for, in their order."""

    @model_validator(mode="after")
    def _aligned(self) -> Self:
        n = self.prompt_logprobs_T.size * self.n_top
        if not self.top_ids_S.size == self.top_logprobs_S.size == n:
            raise ValueError(f"expected {n} alternatives, got {self.top_ids_S.size}")
        n = self.prompt_logprobs_T.size * self.n_drawn
        if not self.drawn_ids_S.size == self.drawn_logprobs_S.size == n:
            raise ValueError(f"expected {n} tokens that were drawn, got {self.drawn_ids_S.size}")
        return self


_NO_IDS, _NO_LOGPROBS = np.zeros(0, np.int32), np.zeros(0, np.float32)
