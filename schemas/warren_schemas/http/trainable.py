"""Bodies about models that a client trains by its own loop: making them, asking for ops, what came of these."""

from typing import Annotated, Literal

from pydantic import Field, JsonValue

from warren_schemas.base import Frozen, Listed
from warren_schemas.config import (
    KlPenalty,
    LoraUpdate,
    Loss,
    NonNegativeFloat,
    NonNegativeInt,
    PositiveFloat,
    Update,
)
from warren_schemas.config.numbers import BaseModelName
from warren_schemas.events import RunState
from warren_schemas.fields.arrays import Logprobs, Mask, TokenIds, Weights
from warren_schemas.fields.kept_names import CheckpointName, WeightsName
from warren_schemas.http.runs import QueuePlace
from warren_schemas.ids import ModelId, RunId
from warren_schemas.training import OptimStep

__all__ = [
    "Datum",
    "FutureDone",
    "FutureFailed",
    "FuturePending",
    "ModelCheckpoint",
    "ModelSnapshot",
    "TrainableView",
]

ClientKey = Annotated[str, Field(min_length=1, max_length=128)]
Metadata = dict[str, JsonValue]
MAX_DATA = 65_536
"""Of one op."""
MIN_IDLE_S, MAX_IDLE_S = 30.0, 7 * 86400.0


class BeginFrom(Frozen):
    """A checkpoint that a model begins with."""

    checkpoint: Annotated[str, Field(max_length=256)]
    """`MODEL/NAME`, of a model that you may read."""
    optimizer: bool = True
    """Go on with its optimizer; else with a fresh one."""


class CreateModel(Frozen):
    base_model: BaseModelName
    update: Update = Field(default_factory=LoraUpdate)
    """What is trained: a LoRA adapter, or all weights."""
    seed: NonNegativeInt = 0
    deterministic: bool = False
    """Never share batches with other models, so that the same ops give bit-identical weights."""
    name: Annotated[str, Field(min_length=1, max_length=128)] = "model"
    key: Annotated[str, Field(min_length=8, max_length=128)] | None = None
    """The same key gives the same model, however often it is asked for."""
    begin_from: BeginFrom | None = None
    metadata: Metadata | None = None
    """Your own, kept with the model."""
    idle_s: Annotated[float, Field(ge=MIN_IDLE_S, le=MAX_IDLE_S)] = 600.0
    """A model of which nothing was heard for so long is saved and closed."""


class TrainableView(Frozen):
    """A model that its client trains."""

    id: ModelId
    run: RunId
    """The run that stands for it in lists, shares, usage and steering."""
    name: str
    owner: str
    base_model: str
    update: Update
    seed: NonNegativeInt
    deterministic: bool
    state: RunState
    waiting_for: str | None = None
    """Why nothing moves, when nothing moves."""
    queue: QueuePlace | None = None
    """Of a model that waits for a trainer."""
    version: NonNegativeInt = 0
    """Optimizer steps and loads so far."""
    published_version: NonNegativeInt | None = None
    """The newest that can be sampled from as MODEL; None: nothing is published."""
    metadata: Metadata | None = None
    error: str | None = None
    created_s: float
    client_until_s: float | None = None
    """Unix time: until when its client is taken to be there, unless it is heard of again."""
    idle_s: float | None = None
    """How long its client may be silent; None: for ever."""
    next_sequence: Annotated[int, Field(ge=1)] = 1
    """Where a client that comes to the model anew goes on to number its ops."""


class TrainableList(Frozen):
    models: tuple[TrainableView, ...]


class Datum(Frozen):
    """One sequence. Every value belongs to the token at its own position; the first token is never trained on."""

    ids: TokenIds
    targets: TokenIds | None = None
    """What is trained in the place of each token, after the tokens before it; left out, the token itself."""
    weights: Weights | None = None
    """cross_entropy: the weight of each token; left out, 1 everywhere."""
    advantages: Weights | None = None
    """Policy losses: the advantage of each token; 0 for the prompt."""
    logprobs: Logprobs | None = None
    """Policy losses: the logprob with which the sampler chose each token; 0 for the prompt."""
    mask: Mask | None = None
    """1 where a token counts. Left out: where it has a weight; of policy losses an advantage or a logprob."""


class LossFields(Frozen):
    loss: Loss
    """Summed over the tokens that count."""
    data: Annotated[Listed[Datum], Field(min_length=1, max_length=MAX_DATA)]
    temperature: PositiveFloat = 1.0
    """Logits are divided by this first: what the tokens were sampled with."""
    kl: KlPenalty | None = None
    """Penalty for leaving the base model (LoRA)."""
    entropy_coefficient: NonNegativeFloat = 0.0
    tis_cap: PositiveFloat | None = None
    """Weigh each token by min(p_trainer / p_sampler, this)."""


class ForwardAsked(LossFields):
    kind: Literal["forward"] = "forward"


class ForwardBackwardAsked(LossFields):
    kind: Literal["forward_backward"] = "forward_backward"


class SaveStateAsked(Frozen):
    """Save weights and optimizer."""

    kind: Literal["save_state"] = "save_state"
    name: CheckpointName
    """Not `op-NUMBER`: automatic checkpoints are called so."""
    ttl_s: PositiveFloat | None = None
    """Delete it after so long; null keeps it."""
    overwrite: bool = False
    metadata: Metadata | None = None


class LoadStateAsked(Frozen):
    """Go on from a checkpoint."""

    kind: Literal["load_state"] = "load_state"
    checkpoint: Annotated[str, Field(max_length=256)]
    """`NAME` of the model's own, or `MODEL/NAME`."""
    optimizer: bool = True


class PublishAsked(Frozen):
    """Let samplers have the weights as they are."""

    kind: Literal["publish"] = "publish"
    name: WeightsName | None = None
    """A snapshot of this name stays; without one the newest 32 versions do."""
    ttl_s: PositiveFloat | None = None
    metadata: Metadata | None = None


class SkipAsked(Frozen):
    """Do nothing, and fail: it takes the place of an op that its client can't send."""

    kind: Literal["skip"] = "skip"
    reason: Annotated[str, Field(max_length=4096)]
    spoils_gradient: bool = False
    """It stands for a `forward_backward`: the next `optim_step` fails too."""
    begins_window: bool = False
    """It stands for an `optim_step`: the gradient so far is dropped, as where a step fails in the trainer."""


Asking = Annotated[
    ForwardAsked
    | ForwardBackwardAsked
    | OptimStep
    | SaveStateAsked
    | LoadStateAsked
    | PublishAsked
    | SkipAsked,
    Field(discriminator="kind"),
]


class AskOp(Frozen):
    op: Asking
    key: ClientKey | None = None
    """The same key gives the same future."""
    sequence: Annotated[int, Field(ge=1, lt=2**53)] | None = None
    """The op's place among all of this client's: 1, 2, 3 and so on, in whatever order they come in."""


class FutureView(Frozen):
    future: str
    model: ModelId


class PublishedPolicy(Frozen):
    version: NonNegativeInt
    model: str
    """Its name for sampling; these very weights, and never newer ones."""
    url: str


class FutureDone(Frozen):
    """The op was applied."""

    state: Literal["done"] = "done"
    future: str
    kind: str
    version: NonNegativeInt
    """Of the model, after the op."""
    metrics: dict[str, float] = Field(default_factory=dict)
    logprobs: tuple[Logprobs, ...] | None = None
    """Of each datum: the trainer's logprob of every token, 0 for the first."""
    checkpoint: str | None = None
    """`MODEL/NAME` of what was saved."""
    policy: PublishedPolicy | None = None


class FutureFailed(Frozen):
    """The op had no effect."""

    state: Literal["failed"] = "failed"
    future: str
    kind: str
    category: Literal["user", "server"]
    """Whose doing it is: `user` where the same request would fail again."""
    reason: str


class FuturePending(Frozen):
    """The op is not applied yet."""

    state: Literal["pending"] = "pending"
    future: str
    kind: str
    reason: str
    """What it waits for."""
    n_ahead: NonNegativeInt
    """Ops of the model that come before it."""


class FutureAnswer(Frozen):
    outcome: Annotated[FutureDone | FutureFailed | FuturePending, Field(discriminator="state")]


class ModelCheckpoint(Frozen):
    """Weights and optimizer, to go on from."""

    name: str
    path: str
    """`MODEL/NAME`."""
    version: NonNegativeInt
    size_bytes: NonNegativeInt
    url: str
    created_s: float
    expires_s: float | None = None
    is_automatic: bool = False
    """Saved without being asked for; it goes when there is a newer one."""
    metadata: Metadata | None = None


class ModelSnapshot(Frozen):
    """A published policy that has a name."""

    name: str
    model: str
    """What to sample from: `MODEL@NAME`."""
    version: NonNegativeInt
    size_bytes: NonNegativeInt
    url: str
    created_s: float
    expires_s: float | None = None
    metadata: Metadata | None = None


class SavedWeights(Frozen):
    checkpoints: tuple[ModelCheckpoint, ...]
    snapshots: tuple[ModelSnapshot, ...]


class SavedName(Frozen):
    kind: Literal["checkpoint", "snapshot"] = "checkpoint"
    name: WeightsName


class SetTtl(SavedName):
    ttl_s: PositiveFloat | None = None
    """From now; null keeps it."""
