"""The engine port: token ids in, token ids out; it knows policies but neither chat nor broker.

An engine decodes many requests at once and joins newcomers to those under way. One `step` gives
running requests their next token. Weights may change between two steps with requests in flight, and
every token names the version of the weights that made it. What was cached under the old weights
stays for the requests that have it (or is computed anew under the new ones, where that is asked
for), and is never shared with a request that comes later. The pause between two calls is the only
pause that there is: whoever does not step has paused the engine.

Logprobs are those of the distribution that the token was really drawn from: logits divided by the
temperature (after the repetition penalty), cut to the `top_k` most probable, then to the smallest
set that reaches `top_p`, then to what has `min_p` of the most probable one, renormalized. Where a
request asks for it, the tokens that are left are told with each token, and are `MAX_KEPT` at most. At
temperature 0 the most probable token is taken, and its logprob is that of the untempered softmax over
the whole vocabulary, because a logprob of 0 would tell nothing.

Legend: `_T` tokens of one sequence, `_B` rows of a batch, `_V` the vocabulary.

Invariants: every submitted request is answered once, by a refusal or by itself with `finish` set,
unless it is cancelled, which is answered by nothing; one bad request never costs another one its
answer.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from warren_schemas.config import Sampling
from warren_schemas.episode import FailureKind, FinishReason
from warren_schemas.sampling_mask import SamplingMask
from warren_schemas.token_options import PromptLogprobs, TokenOptions

if TYPE_CHECKING:
    from warren_gpu_worker.base_models.vision_inputs import Placed
    from warren_gpu_worker.weights import PolicyFiles

NO_OPTIONS = TokenOptions()
MAX_IMAGES = 64
"""Most images of one prompt."""


@dataclass(frozen=True, slots=True)
class PolicyKey:
    """Whose weights: the live ones of a model, which move on, or one version of it that stays."""

    model: str
    pinned_version: int | None = None
    """None: the live weights."""


@dataclass(slots=True, eq=False)
class Request:
    """What is asked for, and what was sampled for it so far: one object from `submit` to its answer.

    What was sampled includes the end-of-turn token or stop string.
    """

    id: int
    """Chosen by the caller, never used twice."""
    policy: PolicyKey
    """Must have been loaded."""
    prompt_ids_T: NDArray[np.int32]
    sampling: Sampling
    priority: int = 0
    """Of what waits, the lowest goes first."""
    pictures: "tuple[Placed, ...]" = ()
    """Images in their places, in order; the prompt has image tokens there."""
    mask_capacity: int | None = None
    """Keep the sampling mask; the turn is cut where it has so many token ids. None: don't keep it."""
    options: TokenOptions = NO_OPTIONS
    max_new_tokens: int = field(default=0, init=False)
    """Set by the engine that takes it."""
    ids: list[int] = field(default_factory=list[int], init=False)
    logprobs: list[float] = field(default_factory=list[float], init=False)
    versions: list[int] = field(default_factory=list[int], init=False)
    sets: list[NDArray[np.int32]] = field(default_factory=list[NDArray[np.int32]], init=False)
    """What each token was sampled from, if the mask is kept."""
    n_mask_ids: int = field(default=0, init=False)
    prompt_logprobs: PromptLogprobs | None = field(default=None, init=False)
    """If the options ask for them."""
    finish: FinishReason | None = field(default=None, init=False)
    """Set with the last token."""

    def append(
        self,
        token: int,
        logprob: float,
        version: int,
        sampled_from: NDArray[np.int32] | None = None,
    ) -> None:
        """`sampled_from` is told where the mask is kept."""
        if self.mask_capacity is not None:
            assert sampled_from is not None, "the set of each token is told"
            self.sets.append(sampled_from)
            self.n_mask_ids += sampled_from.size
        self.ids.append(token)
        self.logprobs.append(logprob)
        self.versions.append(version)

    def fit(self, context_length: int) -> None:
        """Sample no more than the context holds."""
        n_left = context_length - self.prompt_ids_T.size
        self.max_new_tokens = min(self.sampling.max_tokens, n_left)

    @property
    def is_full(self) -> bool:
        """Whether it may have no more tokens."""
        has_capacity = self.mask_capacity is None or self.n_mask_ids < self.mask_capacity
        return len(self.ids) >= self.max_new_tokens or not has_capacity

    @property
    def max_length(self) -> int:
        return self.prompt_ids_T.size + self.max_new_tokens

    @property
    def ids_T(self) -> NDArray[np.int32]:
        return np.array(self.ids, np.int32)

    @property
    def logprobs_T(self) -> NDArray[np.float32]:
        return np.array(self.logprobs, np.float32)

    @property
    def versions_T(self) -> NDArray[np.int32]:
        return np.array(self.versions, np.int32)

    @property
    def sampling_mask(self) -> SamplingMask | None:
        return None if self.mask_capacity is None else SamplingMask.of(self.sets)


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a request gets no completion."""

    id: int
    kind: FailureKind
    reason: str


@dataclass(frozen=True, slots=True)
class EngineStatistics:
    n_running: int
    n_waiting: int
    n_policies: int
    """Policies loaded, base weights not counted."""
    policy_bytes: int
    n_tokens: int
    """Tokens sampled so far."""
    n_steps: int
    n_prompt_tokens: int = 0
    """Of requests that have their first token."""
    n_cached_tokens: int = 0
    """Of these, how many were found in the cache."""


class PolicyUnusable(ValueError):
    """These files don't fit this base model; says how."""


class Engine(Protocol):
    """One base model and many policies on it; for one thread."""

    @property
    def context_length(self) -> int:
        """Most tokens of prompt and completion together."""
        ...

    @property
    def caches_prefixes(self) -> bool:
        """Whether a prompt that begins like one before it is computed from where they part."""
        ...

    @property
    def has_work(self) -> bool: ...

    def add_requests(self, requests: Sequence[Request]) -> list[Refusal]:
        """Take requests; returns why it doesn't take those that can't be served."""
        ...

    def step(self) -> list[Request | Refusal]:
        """One more token for all that run, newcomers included; the answers: what is now finished."""
        ...

    def cancel(self, ids: Collection[int]) -> None:
        """Forget these requests; unknown ones are no error."""
        ...

    def has_requests(self, policy: PolicyKey) -> bool:
        """Whether any submitted request of this policy is neither answered nor cancelled."""
        ...

    def version_of(self, policy: PolicyKey) -> int | None:
        """The version that is loaded; None when there is none."""
        ...

    def load(
        self,
        policy: PolicyKey,
        version: int,
        files: "PolicyFiles | None",
        *,
        recompute: bool = False,
    ) -> None:
        """Make this the policy's weights from the next step on; None stands for the base model's.

        A policy is a set of full weights or an adapter, for as long as it is known. With `recompute`,
        what its requests have cached is computed anew. Policies that nobody uses may be unloaded
        for it. Raises `PolicyUnusable`, and then nothing has changed.
        """
        ...

    def unload(self, policy: PolicyKey) -> None:
        """Drop the weights; the policy must have no requests. Unknown ones are no error."""
        ...

    def statistics(self) -> EngineStatistics: ...


@runtime_checkable
class Stager(Protocol):
    """An engine that can do a part of `load` beforehand."""

    def stage(self, files: "PolicyFiles") -> "PolicyFiles":
        """The same files, to be loaded sooner. On any thread, while others sample. Raises `PolicyUnusable`."""
        ...


@runtime_checkable
class Sleeper(Protocol):
    """An engine that can leave its device's memory to somebody else.

    Requests stay where they are: those that run go on after `wake`, under the same weights, with
    what they had cached computed anew. In between nothing else of the engine may be called but
    `statistics`.
    """

    def sleep(self) -> None:
        """Free the memory: weights go to the host, what is cached is forgotten."""
        ...

    def wake(self) -> None:
        """Take the memory back, with the weights that were there."""
        ...
