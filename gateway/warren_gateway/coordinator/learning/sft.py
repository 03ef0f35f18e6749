"""SFT: supervised steps on demonstrations or on rows of a data set, through the same episodes and the same trainer.

The learning rate rises over the first 20 steps and falls linearly to a tenth; the loss is the mean
negative log-likelihood of the demonstrated tokens. What has no such token teaches nothing and is left out; where
that is all of a batch, its step changes nothing and says so.
"""

import numpy as np

from warren_gateway.coordinator.learning.batches import Datum
from warren_gateway.coordinator.learning.steps import Objective, take_step
from warren_gateway.coordinator.rollouts import completed, held_out
from warren_gateway.coordinator.state.coordinator import CoordinatorState
from warren_gateway.coordinator.state.learning import LearningState
from warren_schemas.config import CrossEntropyLoss, SftConfig
from warren_schemas.episode import Completed, EpisodeEnded, EpisodePurpose
from warren_schemas.events import WarningRaised
from warren_schemas.transcript import Tokens

STEPS_AHEAD = 8
"""Batches of demonstrations in flight; they do not depend on the policy."""
RISE_STEPS = 20
FLOOR = 0.1
_ADVICE = (
    "look at what is demonstrated, at sft.roles (whose messages are learned) and at sft.max_tokens (what is"
    " longer is cut)"
)


def advance(state: CoordinatorState, sft: SftConfig) -> None:
    while _has_batch(state, sft) and _steps_left(state, sft) and _may_evaluate(state, sft):
        _take_step(state, sft)
    held_out.request(state, sft, STEPS_AHEAD)
    ahead = (state.learning.steps.n_published + STEPS_AHEAD) * sft.episodes_per_step
    wanted = min(ahead, sft.steps * sft.episodes_per_step) - state.rollouts.n_admitted
    state.source.request(state, EpisodePurpose.DEMONSTRATE, wanted, n_members=1)


def reason_to_end(learning: LearningState, sft: SftConfig) -> str | None:
    """Why fine-tuning has failed, though no step of it has."""
    if learning.steps.n_empty < sft.steps:
        return None
    return f"no step of fine-tuning had a token to learn; {_ADVICE}"


def _has_batch(state: CoordinatorState, sft: SftConfig) -> bool:
    """Rows are learned in their order, whichever became tokens first: the same config gives the same steps."""
    if not state.has_batch or sft.dataset is None:
        return state.has_batch
    rollouts = state.rollouts
    rollouts.ready.sort(key=lambda group: group.number)
    last = rollouts.ready[sft.episodes_per_step - 1].number
    ready = {group.id for group in rollouts.ready}
    earlier = (group for group in rollouts.groups.values() if group.number < last)
    return all(g.id in ready or held_out.is_held_out(state, g) for g in earlier)


def _is_evaluated(state: CoordinatorState, sft: SftConfig) -> bool:
    """Whether the loss over the rows that are held out is measured after the next step."""
    step = state.learning.steps.n_consumed
    return sft.next_evaluation(after=step) == step + 1


def _may_evaluate(state: CoordinatorState, sft: SftConfig) -> bool:
    return not _is_evaluated(state, sft) or held_out.are_there(state, sft)


def _steps_left(state: CoordinatorState, sft: SftConfig) -> int:
    return max(0, sft.steps - state.learning.steps.n_consumed)


def _take_step(state: CoordinatorState, sft: SftConfig) -> None:
    step = state.learning.steps.n_consumed
    groups = completed.take_batch(state.rollouts, sft.episodes_per_step)
    items = [item for group in groups for item, _ in group.completed]
    transcripts = [item.transcript for item in items]
    sequences = [tokens for each in transcripts for tokens in each.sequences if _teaches(tokens)]
    n_tokens = sum(tokens.n_sampled for tokens in sequences)
    share = np.float32(1.0 / max(1, n_tokens))
    data = [Datum(tokens, tokens.mask_T * share) for tokens in sequences]
    rate = min(1.0, (step + 1) / RISE_STEPS) * max(FLOOR, 1 - step / sft.steps)
    evaluated = _held_out(state, sft) if _is_evaluated(state, sft) else []
    for group in groups:
        state.source.close(state, group, "trained")
    take_step(
        state,
        data,
        Objective(CrossEntropyLoss()),
        learning_rate=sft.learning_rate * rate,
        publish=_steps_left(state, sft) == 1,
        metrics={"seq/truncated_frac": _truncated(items)},
        held_out=evaluated,
    )
    if not data:
        _note_empty(state)


def _teaches(tokens: Tokens) -> bool:
    """Nothing predicts the first token."""
    return bool(tokens.mask_T[1:].any())


def _note_empty(state: CoordinatorState) -> None:
    """Say so at the first such step, then after twice as many."""
    state.learning.steps.n_empty += 1
    n = state.learning.steps.n_empty
    if n.bit_count() == 1:
        message = (
            f"{n} of the steps of fine-tuning had no token to learn and changed nothing; {_ADVICE}"
        )
        state.emit(WarningRaised(message=message))


def _held_out(state: CoordinatorState, sft: SftConfig) -> list[Datum]:
    """The rows of the evaluation that is due, each learned token with a weight of 1."""
    items = [item for group in held_out.take(state) for item, _ in group.completed]
    sequences = [tokens for item in items for tokens in item.transcript.sequences]
    data = [Datum(s, s.mask_T.astype(np.float32)) for s in sequences if _teaches(s)]
    if not data:
        message = f"no row of {sft.evaluation_split} has tokens that are learned, so its loss can't be told"
        state.emit(WarningRaised(message=message))
    return data


def _truncated(items: list[EpisodeEnded]) -> float:
    """The share that a limit has cut."""
    n = sum(isinstance(item.outcome, Completed) and item.outcome.truncated for item in items)
    return n / len(items)
