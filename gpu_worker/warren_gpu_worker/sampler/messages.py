"""What the supervisor and its sampling child say to each other; pickled, for both are one program.

supervisor -> child    Orders
child -> supervisor    Gathering where there are other machines; Ready or Broken once, then Reports; OutOfMemory or DeviceFailed as
                       its last word

Legend: `_T` tokens of one sequence.

Arrays travel as bytes: pickling small arrays as arrays takes five times as long.
"""

import pickle
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import cast

import numpy as np
from numpy.typing import NDArray

from warren_gpu_worker.device_faults import DeviceFault
from warren_gpu_worker.sampler.engines.port import EngineStatistics, PolicyKey, Refusal
from warren_schemas.config import Sampling
from warren_schemas.episode import FinishReason
from warren_schemas.sampling_mask import SamplingMask
from warren_schemas.token_options import PromptLogprobs, TokenOptions

Message = tuple[str, str] | tuple[str, str, int]
"""Role, content, and how many images come before it, where there are any."""


@dataclass(frozen=True, slots=True)
class Images:
    """The images of a transcript, those of messages that are not among the tokens included."""

    files: tuple[str, ...]
    """In base64."""
    mask: bytes
    """uint8 for each token so far: 1 where the policy sampled it."""


@dataclass(frozen=True, slots=True)
class PolicySource:
    """The weights that a turn needs: at least this version, which lies there."""

    key: PolicyKey
    version: int
    url: str | None
    """None: the base model's own weights."""


@dataclass(frozen=True, slots=True)
class TurnRequest:
    """The policy's turn in one transcript."""

    id: int
    policy: PolicySource
    ids_T: NDArray[np.int32]
    """The transcript's tokens so far; empty before the first turn."""
    messages: tuple[Message, ...]
    """Those that are not among the tokens yet."""
    sampling: Sampling
    forced_action: str | None
    priority: int = 0
    """Of what waits, the lowest goes first."""
    is_plain: bool = False
    """No chat template: the prompt is the tokens, or else the text of the one message."""
    images: Images | None = None
    mask_capacity: int | None = None
    """Token ids that the turn's sampling mask may have; None: nobody needs it."""
    options: TokenOptions | None = None
    learned: tuple[int, ...] | None = None
    """The messages are a whole conversation, of which these are learned: it is to become tokens. None: sample a turn."""

    def __reduce__(self) -> "tuple[Callable[..., TurnRequest], tuple[object, ...]]":
        tokens = self.ids_T.tobytes()
        rest = (
            self.messages, self.sampling, self.forced_action, self.priority, self.is_plain,
            self.images, self.mask_capacity, self.options, self.learned,
        )  # fmt: skip
        return _request_from_bytes, (self.id, self.policy, tokens, *rest)


@dataclass(frozen=True, slots=True)
class FinishedTurn:
    """A finished turn: the tokens that follow those of the request."""

    id: int
    prompt_ids_T: NDArray[np.int32]
    """Rendered, not sampled: the rest of the last turn, the new messages, the turn's opening."""
    ids_T: NDArray[np.int32]
    logprobs_T: NDArray[np.float32]
    versions_T: NDArray[np.int32]
    text: str
    """The policy's words, without the end-of-turn token or stop string."""
    finish: FinishReason
    tokenizer: str = ""
    """Digest of the vocabulary that the ids are of."""
    sampling_mask: SamplingMask | None = None
    """Of the sampled tokens."""
    sampling_s: float = 0.0
    """Since the engine had the request."""
    gpu_s: float = 0.0
    """The turn's part of the engine's time."""
    prompt_logprobs: PromptLogprobs | None = None

    def __reduce__(self) -> "tuple[Callable[..., FinishedTurn], tuple[object, ...]]":
        prompt, ids = self.prompt_ids_T.tobytes(), self.ids_T.tobytes()
        logprobs, versions = self.logprobs_T.tobytes(), self.versions_T.tobytes()
        mask = self.sampling_mask
        sets = None if mask is None else (mask.sizes_N.tobytes(), mask.ids_S.tobytes())
        rest = (self.text, self.finish.value, self.tokenizer, sets)
        extra = (self.sampling_s, self.gpu_s, self.prompt_logprobs)
        return _finished_from_bytes, (self.id, prompt, ids, logprobs, versions, *rest, *extra)


@dataclass(frozen=True, slots=True)
class Rendered:
    """A whole conversation as tokens."""

    id: int
    ids: bytes
    """int32 for each token."""
    mask: bytes
    """uint8 for each: 1 where it is learned."""
    is_cut: bool
    """It was longer than it may be, and is cut at its end."""
    tokenizer: str
    """Digest of the vocabulary that the ids are of."""


TurnAnswer = FinishedTurn | Rendered | Refusal


@dataclass(frozen=True, slots=True)
class Published:
    """A model's live weights have a newer version."""

    model: str
    version: int
    url: str


@dataclass(frozen=True, slots=True)
class Orders:
    requests: list[TurnRequest] = field(default_factory=list[TurnRequest])
    cancelled: list[int] = field(default_factory=list[int])
    """Ids of requests that nobody needs any more."""
    published: list[Published] = field(default_factory=list[Published])
    sleep: bool | None = None
    """Leave the device's memory to the trainer (True), or take it back (False)."""


@dataclass(frozen=True, slots=True)
class Ready:
    context_length: int
    caches_prefixes: bool = False
    """Whether an episode's next turn costs less here than elsewhere."""


@dataclass(frozen=True, slots=True)
class Gathering:
    """It waits for so many of the machines over which the model is spread; 0: it loads the model now."""

    n_missing: int


@dataclass(frozen=True, slots=True)
class Broken:
    """The base model can't be sampled from; the child leaves after saying so."""

    reason: str


@dataclass(frozen=True, slots=True)
class Report:
    """What was finished in one step, and a sign of life."""

    answers: Sequence[TurnAnswer]
    statistics: EngineStatistics
    is_asleep: bool = False


@dataclass(frozen=True, slots=True)
class OutOfMemory:
    """There was too little memory for what was to be computed; the child leaves after saying so."""

    reason: str
    n_running: int
    """Turns that were computed together, at least."""
    first: int | None
    """The turn that would be computed where only one at a time is; None: it was none of them."""


@dataclass(frozen=True, slots=True)
class DeviceFailed:
    """The device can't be used by this process any more; the child leaves after saying so."""

    fault: DeviceFault


FromChild = Gathering | Ready | Broken | Report | OutOfMemory | DeviceFailed


def pack(frame: Orders | FromChild) -> bytes:
    return pickle.dumps(frame, protocol=5)


def unpack_orders(frame: bytes) -> Orders:
    return cast(Orders, pickle.loads(frame))


def unpack_answer(frame: bytes) -> FromChild:
    return cast("FromChild", pickle.loads(frame))


def _request_from_bytes(
    id: int,
    policy: PolicySource,
    ids: bytes,
    messages: tuple[Message, ...],
    sampling: Sampling,
    forced_action: str | None,
    priority: int,
    is_plain: bool,
    images: Images | None,
    mask_capacity: int | None,
    options: TokenOptions | None,
    learned: tuple[int, ...] | None,
) -> TurnRequest:
    ids_T = np.frombuffer(ids, np.int32)
    rest = (sampling, forced_action, priority, is_plain, images, mask_capacity, options, learned)
    return TurnRequest(id, policy, ids_T, messages, *rest)


def _finished_from_bytes(
    id: int,
    prompt: bytes,
    ids: bytes,
    logprobs: bytes,
    versions: bytes,
    text: str,
    finish: str,
    tokenizer: str,
    sets: tuple[bytes, bytes] | None,
    sampling_s: float,
    gpu_s: float,
    prompt_logprobs: PromptLogprobs | None,
) -> FinishedTurn:
    return FinishedTurn(
        id,
        np.frombuffer(prompt, np.int32),
        np.frombuffer(ids, np.int32),
        np.frombuffer(logprobs, np.float32),
        np.frombuffer(versions, np.int32),
        text,
        FinishReason(finish),
        tokenizer,
        None if sets is None else _mask_from_bytes(*sets),
        sampling_s,
        gpu_s,
        prompt_logprobs,
    )


def _mask_from_bytes(sizes: bytes, ids: bytes) -> SamplingMask:
    return SamplingMask.model_construct(
        sizes_N=np.frombuffer(sizes, np.int32), ids_S=np.frombuffer(ids, np.int32)
    )
