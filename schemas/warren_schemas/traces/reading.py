"""A line of TrainingTraces as a row of an export, which data sets take: replays and fine-tuning train on it.

Invariants: the same line gives the same row, so that an upload can be resumed; a trace that Warren wrote gives the row that it was
written from. Nothing is tokenized.
"""

from collections.abc import Mapping, Sequence
from typing import cast

import orjson
from pydantic import ValidationError

from warren_schemas.exports.rows import Row
from warren_schemas.text.explain import explain
from warren_schemas.traces.others import others_row
from warren_schemas.traces.own import OWN, OwnTurn
from warren_schemas.traces.sequences import columns, of_ours
from warren_schemas.traces.shape import NotATrace, TrainingTrace, TrainingTurn

MAX_TRACE_BYTES = 32 * 1024 * 1024
"""Each turn repeats what was said before it, which its row does not."""
_MOST_TOLD = 3


def is_trace(line: bytes) -> bool:
    """Whether this is a TrainingTrace, right or wrong, and no row of another kind."""
    try:
        found = orjson.loads(line)
    except orjson.JSONDecodeError:
        return False
    return isinstance(found, dict) and {"schema_version", "turns"} <= set(cast("Row", found))


def row_of_trace(line: bytes, number: int) -> Row:
    """`number`: of the line, counted from 1. Raises `NotATrace`."""
    if len(line) > MAX_TRACE_BYTES:
        raise NotATrace(f"the trace has more than {MAX_TRACE_BYTES} bytes")
    try:
        trace = TrainingTrace.model_validate(orjson.loads(line))
    except orjson.JSONDecodeError as error:
        raise NotATrace(f"it is not JSON: {error}") from error
    except ValidationError as error:
        raise NotATrace("; ".join(explain(error, TrainingTrace)[:_MOST_TOLD])) from error
    if not any(1 in turn.loss_mask for turn in trace.turns):
        raise NotATrace("no token of it is learned: it has no turn, or each loss_mask is 0")
    is_ours = any(OWN in turn.metadata for turn in trace.turns)
    return _our_row(trace.turns) if is_ours else others_row(trace.turns, number)


def _our_row(turns: Sequence[TrainingTurn]) -> Row:
    own = [_own(number, turn.metadata) for number, turn in enumerate(turns)]
    episode, tails = own[0].episode, own[0].tails
    if episode is None or tails is None:
        raise NotATrace("turns.0.metadata.warren: it has no episode: the first turn is missing")
    reward = turns[0].metadata.get("reward")
    if any(turn.metadata.get("reward") != reward for turn in turns):
        raise NotATrace("metadata.reward: it is that of the episode, the same on all turns")
    return {**episode, "reward": reward, **columns(of_ours(turns, own, tails))}


def _own(number: int, metadata: Mapping[str, object]) -> OwnTurn:
    try:
        return OwnTurn.model_validate(metadata.get(OWN))
    except ValidationError as error:
        told = "; ".join(explain(error, OwnTurn)[:_MOST_TOLD])
        raise NotATrace(f"turns.{number}.metadata.warren: {told}") from error
