"""What came of an op -> what the protocol tells of it: a protobuf message or a JSON body.

Legend: `_N` tokens of all sequences laid end to end.
"""

from collections.abc import Sequence
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel

from warren_gateway.models.outcomes import Done
from warren_gateway.tinker.wire import messages
from warren_schemas.base import Frozen
from warren_schemas.tinker.answers import (
    ExternalSaved,
    OptimStepped,
    StateLoaded,
    StateSaved,
    WeightsPublished,
)


class Noted(Frozen):
    """What a request keeps of how it was asked for."""

    model: str
    """As its client calls it."""
    path: str | None = None
    """Of what is saved, or was loaded."""
    sampler: int | None = None
    """Number of the sampler that is opened for what is published."""
    kind: Literal["snapshot", "inflight", "external"] = "snapshot"
    """`external`: it is published to be downloaded."""


def result_of(done: Done, noted: Noted, sampler: str | None) -> bytes | BaseModel:
    """`sampler` is the id of the one that was opened for it."""
    match done.request.kind:
        case "forward" | "forward_backward":
            return _loss_output(done)
        case "save_state":
            return StateSaved(path=noted.path or "")
        case "load_state":
            return StateLoaded(path=noted.path, model_id=noted.model)
        case "publish_policy" if noted.kind == "external":
            return ExternalSaved(path=noted.path or "")
        case "publish_policy":
            return WeightsPublished(path=noted.path, sampling_session_id=sampler)
        case _:
            return OptimStepped(metrics=done.outcome.metrics)


def _loss_output(done: Done) -> bytes:
    """Logprobs of each target, and the sums of the loss."""
    output = messages.ForwardBackwardOutput()
    output.loss_fn_output_type = "ArrayRecord"
    for name, value in done.outcome.metrics.items():
        output.metrics[name] = value
    record = output.loss_fn_outputs.add()
    record.type_tag, record.num_datums = "ArrayRecord", len(done.request.asked.lengths)
    logprobs_N = done.outcome.logprobs_N
    if logprobs_N is not None:
        parts = _of_targets(logprobs_N, done.request.asked.lengths)
        field = record.fields["logprobs"]
        field.data, field.dtype = np.concatenate(parts).astype("<f4").tobytes(), messages.FLOAT32
        ends = np.cumsum([0, *(4 * part.size for part in parts)])
        field.offsets = ends.astype("<i8").tobytes()
    return output.SerializeToString()


def _of_targets(
    logprobs_N: NDArray[np.float32], lengths: Sequence[int]
) -> list[NDArray[np.float32]]:
    """Of each sequence all but its first token, which is nobody's target."""
    ends = np.cumsum(lengths)
    return [part[1:] for part in np.split(logprobs_N, ends[:-1])]
