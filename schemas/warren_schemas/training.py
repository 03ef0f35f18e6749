"""Training messages: the op log of a model, and what the trainer answers.

A model is a numbered log of ops, 1, 2, 3 and so on, stored before they are sent. The trainer that
holds the model's lease applies each exactly once, in order, and answers every number. A lease has
an epoch; ops travel on `train.<model>.<epoch>`, and answers of an older epoch are ignored.
"""

from typing import Annotated, ClassVar, Literal, Self

from pydantic import Field, model_validator

from warren_schemas.arrays import Lengths, Logprobs, Mask, TokenIds, Weights
from warren_schemas.base import Frozen
from warren_schemas.config import Loss, NonNegativeFloat, NonNegativeInt, PositiveFloat, Update
from warren_schemas.envelope import Item
from warren_schemas.ids import ModelId


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
    """Advantage of each token (policy losses) or its weight (cross-entropy), normalized."""

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
        return self


class ForwardBackward(Frozen):
    """Add the gradient of the loss, summed over masked tokens, to the model's gradient."""

    kind: Literal["forward_backward"] = "forward_backward"
    loss: Loss
    batch: TokenBatch
    temperature: PositiveFloat = 1.0
    """Logits are divided by this first: the temperature that the tokens were sampled with."""
    return_logprobs: bool = False


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


class SaveState(Frozen):
    """Write a checkpoint: weights, optimizer, random state and the number of this op."""

    kind: Literal["save_state"] = "save_state"
    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9_-][A-Za-z0-9._-]{0,63}$")]
    keep_last: Annotated[int, Field(ge=2)] | None = None
    """Keep this many checkpoints, this one and those whose names sort just before it; None keeps
    all. At least 2: until the answer is known, the one before may still be needed."""


OpBody = Annotated[
    ForwardBackward | OptimStep | PublishPolicy | SaveState, Field(discriminator="kind")
]


class ModelSpec(Frozen):
    """What a trainer must know to make the model from nothing."""

    base_model: str
    update: Update
    seed: NonNegativeInt = 0


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
    logprobs_N: Logprobs | None = None
    """The trainer's logprobs of the batch's tokens, 0 for each first token, if asked for."""
    policy: Policy | None = None
    checkpoint_url: str | None = None


class OpFailed(Frozen):
    """The op had no effect; the model lives on and later ops are applied."""

    status: Literal["failed"] = "failed"
    reason: str


OpOutcome = Annotated[OpDone | OpFailed, Field(discriminator="status")]


class OpResult(Item):
    """The trainer's answer to one op -> results.<model>; number 0 answers `OpenModel`."""

    kind: ClassVar[str] = "op_result"
    schema_version: ClassVar[int] = 1
    model: ModelId
    epoch: Annotated[int, Field(ge=1)]
    number: NonNegativeInt
    outcome: OpOutcome


class OpenModel(Item):
    """The gateway grants a worker the lease of a model -> trainer.<worker>.

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


class CloseModel(Item):
    """The gateway takes the lease back -> trainer.<worker>."""

    kind: ClassVar[str] = "close_model"
    schema_version: ClassVar[int] = 1
    model: ModelId
    epoch: Annotated[int, Field(ge=1)]
