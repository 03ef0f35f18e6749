"""Rows that SFT holds out: after some of its steps the policy's loss over them is measured, and none is ever learned.

Invariants: each evaluation has the same rows in the same order, chosen by the run's seed, but for rows that fail; the rows of
one evaluation are asked for at a time, and no step is taken that is due to be evaluated before they are there.
"""

from warren_gateway.coordinator.rollouts import conversations, episodes, tasks
from warren_gateway.coordinator.state.coordinator import CoordinatorState
from warren_gateway.coordinator.state.groups import Group
from warren_schemas.config import SftConfig
from warren_schemas.episode import EpisodePurpose

_PURPOSE = EpisodePurpose.DEMONSTRATE


def request(state: CoordinatorState, sft: SftConfig, n_steps_ahead: int) -> None:
    """Have tokens made of what the next evaluation lacks, if it is due within so many steps."""
    step = sft.next_evaluation(after=state.learning.steps.n_consumed)
    if step is None or step > state.learning.steps.n_published + n_steps_ahead:
        return
    n_left = _n_wanted(state, sft) - _n_taken(state)
    episodes.admit_held_out(state, conversations.held_out_number(state.config), n_left)


def are_there(state: CoordinatorState, sft: SftConfig) -> bool:
    """Whether all have become tokens, or failed for good."""
    n_open = sum(is_held_out(state, group) for group in state.rollouts.groups.values())
    return _n_taken(state) >= _n_wanted(state, sft) and n_open == len(state.rollouts.held_out)


def take(state: CoordinatorState) -> list[Group]:
    """Those of the evaluation that is due, in the order of the rows; the next one begins with the first row."""
    groups = sorted(state.rollouts.held_out, key=lambda group: group.number)
    state.rollouts.held_out.clear()
    tasks.rewind(state.rollouts, _PURPOSE, [conversations.held_out_number(state.config)])
    for group in groups:
        state.source.close(state, group, "evaluated")
    return groups


def is_held_out(state: CoordinatorState, group: Group) -> bool:
    return conversations.is_held_out(state.config, group)


def other_cursors(state: CoordinatorState) -> dict[str, int]:
    """Of what is learned: evaluations begin with the first row."""
    number = conversations.held_out_number(state.config)
    return tasks.cursors_without(state.rollouts, _PURPOSE, number)


def _n_taken(state: CoordinatorState) -> int:
    number = conversations.held_out_number(state.config)
    return tasks.n_taken(state.rollouts, _PURPOSE, number)


def _n_wanted(state: CoordinatorState, sft: SftConfig) -> int:
    assert sft.dataset is not None and sft.evaluation_split is not None
    return min(sft.evaluation_rows, len(state.rows[sft.dataset][sft.evaluation_split]))
