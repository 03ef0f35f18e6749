"""What came of an op -> what the protocol tells of it: a protobuf message or a JSON body.

Legend: `_N` tokens of all sequences laid end to end.
"""

from collections.abc import Iterator, Sequence
from itertools import groupby, islice
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel

from warren_gateway.tinker.wire import messages
from warren_gateway.trainable.outcomes import Done
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
    n_targets: tuple[int, ...] = ()
    """Of each token, by datum; 0 where targets have one axis. Empty where all have."""
    stands_for: str | None = None
    """The loss that is computed in the place of stable_reinforce."""


def result_of(done: Done, noted: Noted, sampler: str | None) -> bytes | BaseModel:
    """`sampler` is the id of the one that was opened for it."""
    match done.request.kind:
        case "forward" | "forward_backward":
            return _loss_output(done, noted)
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


def _loss_output(done: Done, noted: Noted) -> bytes:
    """Logprobs of each target, the sums of the loss, and which loss that is where it isn't the one that was asked for."""
    output = messages.ForwardBackwardOutput()
    output.loss_fn_output_type = "ArrayRecord"
    for name, value in done.outcome.metrics.items():
        output.metrics[name] = value
    if noted.stands_for is not None:
        output.metrics[f"stable_reinforce_as_{noted.stands_for}:max"] = 1.0
    lengths = done.request.asked.lengths
    n_targets = noted.n_targets or [0] * len(lengths)
    parts = _of_targets(done.outcome.logprobs_N, lengths)
    for n, alike in groupby(n_targets):
        record = output.loss_fn_outputs.add()
        record.type_tag, record.num_datums = "ArrayRecord", len(list(alike))
        if parts is not None:
            tables = [_table(parts, n) for _ in range(record.num_datums)]
            _fill(record.fields["logprobs"], tables, [n] if n else [])
    return output.SerializeToString()


def _of_targets(
    logprobs_N: NDArray[np.float32] | None, lengths: Sequence[int]
) -> Iterator[NDArray[np.float32]] | None:
    """Of each sequence all but its first token, which is nobody's target."""
    if logprobs_N is None:
        return None
    ends = np.cumsum(lengths)
    return (part[1:] for part in np.split(logprobs_N, ends[:-1]))


def _table(parts: Iterator[NDArray[np.float32]], n_targets: int) -> NDArray[np.float32]:
    """Of one datum, whose targets came as one sequence each."""
    return np.stack(list(islice(parts, max(n_targets, 1))), axis=1)


def _fill(
    field: messages.BatchedTensor, tables: Sequence[NDArray[np.float32]], trailing: Sequence[int]
) -> None:
    flat = [each.astype("<f4").ravel() for each in tables]
    field.data, field.dtype = np.concatenate(flat).tobytes(), messages.FLOAT32
    field.offsets = np.cumsum([0, *(each.nbytes for each in flat)]).astype("<i8").tobytes()
    field.trailing_shape.extend(trailing)
