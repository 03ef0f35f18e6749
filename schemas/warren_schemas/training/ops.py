"""Ops: the entries of a model's op log."""

from typing import Annotated, ClassVar, Literal, Self

from pydantic import Field, JsonValue, model_validator

from warren_schemas.base import Frozen
from warren_schemas.config import (
    Critic,
    CrossEntropyLoss,
    KlPenalty,
    Loss,
    NonNegativeFloat,
    NonNegativeInt,
    PositiveFloat,
)
from warren_schemas.envelope import Item
from warren_schemas.ids import ModelId
from warren_schemas.token_batch import TokenBatch

__all__ = [
    "CriticTerm",
    "Forward",
    "ForwardBackward",
    "KeepReference",
    "LoadState",
    "Op",
    "OpBody",
    "OptimStep",
    "PublishPolicy",
    "Refused",
    "SaveState",
]


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
    """Versions that stay however old they are: they are evaluated, served under a name, or sampled from."""
    is_live: bool = True
    """Samplers that follow the model move on to it; else only those sample from it that ask for this very version."""


class SaveState(Frozen):
    """Write a checkpoint: weights, optimizer, random state and the number of this op."""

    kind: Literal["save_state"] = "save_state"
    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9_-][A-Za-z0-9._-]{0,63}$")]
    keep: tuple[str, ...] | None = None
    """Names of older checkpoints (by `checkpoint_order`) that stay; the others are deleted. The newest
    whose answer is known must be among them. None keeps all."""
    note: dict[str, JsonValue] | None = None
    """Kept with the checkpoint, for whoever goes on from it."""


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


class Refused(Frozen):
    """Fail, in the order of the log: what a client asked for can't be done."""

    kind: Literal["refused"] = "refused"
    reason: str
    spoils_gradient: bool = False
    """It stands for a `ForwardBackward`: the next `OptimStep` fails too, and begins a new window."""
    begins_window: bool = False
    """It stands for an `OptimStep` that failed: the gradient is dropped."""


OpBody = Annotated[
    Forward
    | ForwardBackward
    | OptimStep
    | PublishPolicy
    | SaveState
    | LoadState
    | KeepReference
    | Refused,
    Field(discriminator="kind"),
]


class Op(Item):
    """One entry of a model's op log."""

    kind: ClassVar[str] = "op"
    schema_version: ClassVar[int] = 1
    model: ModelId
    epoch: Annotated[int, Field(ge=1)]
    number: Annotated[int, Field(ge=1)]
    body: OpBody
