"""Training messages: the op log of a model, and what the trainer answers.

A model is a numbered log of ops, 1, 2, 3 and so on, stored before they are sent. The trainer that
holds the model's lease applies each exactly once, in order, and answers every number. A lease has
an epoch; ops travel on `train.<model>.<epoch>`, and answers of an older epoch are ignored.
"""

import re
from typing import Annotated, ClassVar, Literal, Self

from pydantic import Field, JsonValue, model_validator

from warren_schemas.base import Frozen
from warren_schemas.config import (
    Critic,
    CrossEntropyLoss,
    FullUpdate,
    KlPenalty,
    Loss,
    NonNegativeFloat,
    NonNegativeInt,
    PositiveFloat,
    Update,
)
from warren_schemas.envelope import Item
from warren_schemas.fields.arrays import Logprobs
from warren_schemas.ids import MessageId, ModelId, WorkerId
from warren_schemas.token_batch import TokenBatch


class CriticTerm(Critic):
    """What an op asks of the model's critic."""

    advantage_scale: PositiveFloat = 1.0
    """What advantages are multiplied by: the normalization that other ops have in their weights."""


class _LossOp(Frozen):
    """A loss, summed over masked tokens. Coefficients count for each token of that sum."""

    loss: Loss
    batch: TokenBatch
    temperature: PositiveFloat = 1.0
    """Logits are divided by this first: the temperature that the tokens were sampled with."""
    repetition_penalty: PositiveFloat = 1.0
    """Applied to the logits before that, as the sampler did: to what the sequence holds so far."""
    return_logprobs: bool = False
    kl: KlPenalty | None = None
    """Penalty for leaving the reference: what `KeepReference` kept, or LoRA's base."""
    entropy_coefficient: NonNegativeFloat = 0.0
    """What one nat of entropy is worth."""
    tis_cap: PositiveFloat | None = None
    """Weigh each token by min(p_trainer / p_sampler, this) and take the loss against the trainer's
    own logprobs (truncated importance sampling); DRO's penalty stays with the sampler's."""
    critic: CriticTerm | None = None
    """Have the critic tell advantages from rewards, and add its own loss."""

    @model_validator(mode="after")
    def _has_sampler(self) -> Self:
        if self.critic is not None and isinstance(self.loss, CrossEntropyLoss):
            raise ValueError("a critic tells advantages, which cross_entropy has no use for")
        if self.tis_cap is not None and isinstance(self.loss, CrossEntropyLoss):
            raise ValueError("tis_cap corrects for the sampler, which cross_entropy ignores")
        return self


class Forward(_LossOp):
    """Compute a loss and logprobs, and change nothing."""

    kind: Literal["forward"] = "forward"


class ForwardBackward(_LossOp):
    """Add the gradient of the loss to the model's gradient."""

    kind: Literal["forward_backward"] = "forward_backward"


class OptimStep(Frozen):
    """One AdamW step with the gradient added up so far; the policy version rises by one."""

    kind: Literal["optim_step"] = "optim_step"
    learning_rate: NonNegativeFloat
    beta1: Annotated[float, Field(ge=0, lt=1)] = 0.9
    beta2: Annotated[float, Field(ge=0, lt=1)] = 0.95
    eps: PositiveFloat = 1e-8
    weight_decay: NonNegativeFloat = 0.0
    clip_norm: NonNegativeFloat = 0.0
    """0 is off."""


class PublishPolicy(Frozen):
    """Write the current weights (or adapter) where samplers find them, and tell them."""

    kind: Literal["publish_policy"] = "publish_policy"
    keep: tuple[NonNegativeInt, ...] = ()
    """Versions that stay however old they are: somebody evaluates them."""


class SaveState(Frozen):
    """Write a checkpoint: weights, optimizer, random state and the number of this op."""

    kind: Literal["save_state"] = "save_state"
    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9_-][A-Za-z0-9._-]{0,63}$")]
    keep: tuple[str, ...] | None = None
    """Names of older checkpoints (by `checkpoint_order`) that stay; the others are deleted. The newest
    whose answer is known must be among them. None keeps all."""
    note: dict[str, JsonValue] | None = None
    """Kept with the checkpoint, for whoever goes on from it."""


KEEP_POLICIES = 32
"""Published versions of a model that stay; older ones are deleted."""

_CHECKPOINT = re.compile(r"(sft|step)-(\d+)")


def checkpoint_order(name: str) -> tuple[int, int, str]:
    """Sorts checkpoints of one model by age: a run's SFT is before its steps; others by name."""
    match = _CHECKPOINT.fullmatch(name)
    if match is None:
        return (0, 0, name)
    return (1 if match[1] == "sft" else 2, int(match[2]), "")


class LoadState(Frozen):
    """Go on from a checkpoint: its weights, and its optimizer or a fresh one.

    The gradient so far is dropped. The policy version rises by one: these are other weights.
    """

    kind: Literal["load_state"] = "load_state"
    url: str
    optimizer: bool = True


class KeepReference(Frozen):
    """Keep the current weights as the reference of KL penalties."""

    kind: Literal["keep_reference"] = "keep_reference"


OpBody = Annotated[
    Forward | ForwardBackward | OptimStep | PublishPolicy | SaveState | LoadState | KeepReference,
    Field(discriminator="kind"),
]


class ModelSpec(Frozen):
    """What a trainer must know to make the model from nothing."""

    base_model: str
    update: Update
    seed: NonNegativeInt = 0
    deterministic: bool = False
    """Never share a batch with other models, which would change the last bits."""
    critic: bool = False
    """Whether the model has a value head."""


def is_full(spec: ModelSpec) -> bool:
    """All weights are trained, so a worker can hold no other model beside it."""
    return isinstance(spec.update, FullUpdate)


class Op(Item):
    """One entry of a model's op log."""

    kind: ClassVar[str] = "op"
    schema_version: ClassVar[int] = 1
    model: ModelId
    epoch: Annotated[int, Field(ge=1)]
    number: Annotated[int, Field(ge=1)]
    body: OpBody


class Policy(Frozen):
    """A published policy version."""

    version: NonNegativeInt
    url: str
    """fsspec URL of the folder that holds the weights."""
    size_bytes: NonNegativeInt


class OpDone(Frozen):
    status: Literal["done"] = "done"
    version: NonNegativeInt
    """Optimizer steps of the model so far."""
    metrics: dict[str, float] = Field(default_factory=dict)
    duration_s: NonNegativeFloat = 0.0
    """What the trainer took, by its own clock; of ops that shared a batch, the batch. 0: not measured."""
    gpu_s: NonNegativeFloat = 0.0
    """GPU-seconds that it took: of ops that shared a batch its part by tokens, on all of the trainer's GPUs."""
    logprobs_N: Logprobs | None = None
    """The trainer's logprobs of the batch's tokens, 0 for each first token, if asked for."""
    policy: Policy | None = None
    tokenizer: str = ""
    """Of an opening: digest of the base model's vocabulary, as `Transcript.tokenizer`; empty if unknown."""
    vocabulary_size: NonNegativeInt = 0
    """Of an opening: tokens that the model chooses among; 0 if unknown."""
    note: dict[str, JsonValue] | None = None
    """Of an opening from another model's checkpoint: what its `SaveState` said."""
    checkpoint_url: str | None = None
    checkpoint_bytes: NonNegativeInt = 0


class OpFailed(Frozen):
    """The op had no effect; the model lives on and later ops are applied."""

    status: Literal["failed"] = "failed"
    reason: str
    elsewhere: bool = False
    """Another trainer may well do it: this one has no capacity for the model, or had a newer lease of it."""
    ahead_version: NonNegativeInt | None = None
    """The trainer has applied another op under this number, and its model is at this version now."""


OpOutcome = Annotated[OpDone | OpFailed, Field(discriminator="status")]


class OpResult(Item):
    """The trainer's answer to one op -> results.<model>; number 0 answers `OpenModel`."""

    kind: ClassVar[str] = "op_result"
    schema_version: ClassVar[int] = 1
    model: ModelId
    epoch: Annotated[int, Field(ge=1)]
    number: NonNegativeInt
    op: MessageId | None = None
    """The id of the op's envelope; None for an opening."""
    outcome: OpOutcome


class Job(Item):
    """A model wants a trainer -> jobs.<lora or full>.<base model>.

    A worker takes it while it has room, keeps that room, and says so with `JobTaken`; the grant follows.
    """

    kind: ClassVar[str] = "job"
    schema_version: ClassVar[int] = 1
    model: ModelId
    epoch: Annotated[int, Field(ge=1)]
    """Of the lease that whoever takes the job is granted."""
    spec: ModelSpec
    owner: str = ""
    n_gpus: Annotated[int, Field(ge=1)] = 1
    memory_bytes: NonNegativeInt | None = None
    """An estimate of what the model needs; None where there is none."""


class JobTaken(Item):
    """A worker keeps room for a job -> results.<model>; the answer is `OpenModel`, or `CloseModel` if somebody
    else was first."""

    kind: ClassVar[str] = "job_taken"
    schema_version: ClassVar[int] = 1
    model: ModelId
    epoch: Annotated[int, Field(ge=1)]
    worker: WorkerId
    late_after: Annotated[int, Field(ge=1)] | None = None
    """The worker has had this epoch of the model already, so it keeps no room."""


class OpenModel(Item):
    """The gateway grants the lease of a model to the worker that took its job -> trainer.<worker>.

    The worker loads `checkpoint_url` (or makes the model from its spec), answers number 0, and then
    applies the ops of `train.<model>.<epoch>` from `next_op` on.
    """

    kind: ClassVar[str] = "open_model"
    schema_version: ClassVar[int] = 1
    model: ModelId
    epoch: Annotated[int, Field(ge=1)]
    spec: ModelSpec
    checkpoint_url: str | None = None
    next_op: Annotated[int, Field(ge=1)] = 1
    owner: str = ""
    """Owners share a worker fairly, whatever number of models and ops each has."""


class DeleteModel(Item):
    """The model's run was deleted: so are all its checkpoints and policies -> file-cleanup."""

    kind: ClassVar[str] = "delete_model"
    schema_version: ClassVar[int] = 1
    model: ModelId


class KeepForJob(Item):
    """The scheduler keeps a worker for a job that needs a whole one -> trainer.<worker>.

    Until the next such order the worker takes no small jobs but this one, and drains.
    """

    kind: ClassVar[str] = "keep_for_job"
    schema_version: ClassVar[int] = 1
    model: ModelId | None = None
    """None: it is kept for nobody any more."""


class CloseModel(Item):
    """The gateway takes the lease back -> trainer.<worker>."""

    kind: ClassVar[str] = "close_model"
    schema_version: ClassVar[int] = 1
    model: ModelId
    epoch: Annotated[int, Field(ge=1)]
