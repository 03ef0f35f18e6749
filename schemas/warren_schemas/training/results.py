"""What the trainer answers to an op."""

from typing import Annotated, ClassVar, Literal

from pydantic import Field, JsonValue

from warren_schemas.base import Frozen
from warren_schemas.config import (
    NonNegativeFloat,
    NonNegativeInt,
)
from warren_schemas.envelope import Item
from warren_schemas.fields.arrays import Logprobs
from warren_schemas.ids import MessageId, ModelId

__all__ = ["OpDone", "OpFailed", "OpOutcome", "OpResult", "Policy"]


class Policy(Frozen):
    """A published policy version."""

    version: NonNegativeInt
    url: str
    """fsspec URL of the folder that holds the weights."""
    size_bytes: NonNegativeInt
    is_live: bool = True
    """Of a `PublishPolicy` that was; samplers are told of no other."""


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
    notice: str | None = None
    """What a person should know about how it was done, and what to change."""


class OpFailed(Frozen):
    """The op had no effect; the model lives on and later ops are applied."""

    status: Literal["failed"] = "failed"
    reason: str
    is_users: bool = False
    """The op can't be applied as it is, here or anywhere; else the trainer had a trouble of its own."""
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
