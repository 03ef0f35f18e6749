"""What a client asks for, as an op of the log and what its coordinator must know besides."""

from dataclasses import dataclass, field
from typing import Any

from warren_gateway.coordinator.state.client import Asked
from warren_gateway.trainable.batches import token_batch
from warren_schemas.http.trainable import (
    Asking,
    ForwardAsked,
    ForwardBackwardAsked,
    LoadStateAsked,
    PublishAsked,
    SaveStateAsked,
    SkipAsked,
)
from warren_schemas.training import (
    Forward,
    ForwardBackward,
    LoadState,
    OpBody,
    OptimStep,
    PublishPolicy,
    Refused,
    SaveState,
)

_NAMED_LATER = "later"
"""Of a checkpoint: its coordinator names the folder when its turn comes."""


@dataclass(frozen=True, slots=True)
class Wanted:
    body: OpBody
    asked: Asked = field(default_factory=Asked)
    checkpoint: str | None = None
    """Of a `LoadState`: `MODEL/NAME` of another model's checkpoint, whose URL is still to be found."""
    is_by_number: bool = False
    """Its sequence number alone says which request it is, whatever has become meanwhile of what it names."""


def wanted(op: Asking, extra: dict[str, Any] | None = None) -> Wanted:
    """`extra` is told again with the outcome. Raises `InvalidOp`."""
    match op:
        case ForwardAsked() | ForwardBackwardAsked():
            asked = Asked(lengths=[datum.ids.size for datum in op.data], extra=extra)
            return Wanted(_loss_op(op), asked)
        case OptimStep():
            return Wanted(op, Asked(extra=extra))
        case SaveStateAsked():
            asked = Asked(
                name=op.name,
                ttl_s=op.ttl_s,
                overwrite=op.overwrite,
                metadata=op.metadata,
                extra=extra,
            )
            return Wanted(SaveState(name=_NAMED_LATER), asked)
        case PublishAsked():
            asked = Asked(name=op.name, ttl_s=op.ttl_s, metadata=op.metadata, extra=extra)
            return Wanted(PublishPolicy(), asked)
        case SkipAsked():
            return Wanted(_refused(op), Asked(begins_window=op.begins_window, extra=extra))
        case LoadStateAsked():
            return load(op.checkpoint, optimizer=op.optimizer, extra=extra)


def load(checkpoint: str, *, optimizer: bool, extra: dict[str, Any] | None = None) -> Wanted:
    """`NAME` of the model's own, or `MODEL/NAME`."""
    body = LoadState(url="", optimizer=optimizer)
    if "/" in checkpoint:
        return Wanted(body, Asked(extra=extra), checkpoint)
    return Wanted(body, Asked(name=checkpoint, extra=extra))


def _refused(op: SkipAsked) -> Refused:
    return Refused(
        reason=op.reason, spoils_gradient=op.spoils_gradient, begins_window=op.begins_window
    )


def _loss_op(op: ForwardAsked | ForwardBackwardAsked) -> OpBody:
    kind = Forward if isinstance(op, ForwardAsked) else ForwardBackward
    return kind(
        loss=op.loss,
        batch=token_batch(op.data, op.loss),
        temperature=op.temperature,
        return_logprobs=True,
        kl=op.kl,
        entropy_coefficient=op.entropy_coefficient,
        tis_cap=op.tis_cap,
    )
