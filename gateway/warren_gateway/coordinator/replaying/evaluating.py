"""Recorded groups that are evaluated, with the rewards that they have or with others.

Invariants
- What is counted is a group of the run's own, with the place of each ending in the run's own recording: so results, trajectories
  and exports are those of a live evaluation.
- A recorded group is counted once: what is stored of the run's own says which recorded episodes it stands for, in the
  transaction that counts it. What was not counted is read and told again by whoever takes the run over, under other ids.
- Groups are counted, and numbered, in the order of the recording.
"""

from warren_gateway.coordinator.replaying.scoring import OTHER_TURNS, Scoring
from warren_gateway.coordinator.rollouts.failure_limits import note_attempts
from warren_gateway.coordinator.rollouts.starting import evaluation_number
from warren_gateway.coordinator.state.coordinator import CoordinatorState
from warren_gateway.coordinator.state.group_parts import PlayedTask, Provenance
from warren_gateway.coordinator.state.groups import Group
from warren_gateway.coordinator.state.rollouts import RolloutState
from warren_schemas.episode import EpisodePurpose
from warren_schemas.ids import new_group_id

MOST_EPISODES = 256
"""That were read and not counted, where nobody plays them."""
MOST_BYTES = 64 * 2**20
"""What those that were read and not counted may take in memory before no more are read."""


class Evaluating(Scoring):
    def __init__(self) -> None:
        super().__init__()
        self._unnamed: str | None = None
        """An environment that the config does not name."""

    def put(self, state: CoordinatorState, group: Group) -> None:
        item = next(iter((*group.ended.values(), *group.provenance.lost.values())))
        if item.spec.environment != state.config.environments[group.environment].name:
            self._unnamed = item.spec.environment
        super().put(state, group)

    def failure(self, state: CoordinatorState, *, is_dry: bool) -> str | None:
        """Why there will be no results; `is_dry`: all was read."""
        if self._unnamed is not None:
            return (
                f"the recording holds episodes of {self._unnamed}, too, which environments doesn't name; add it there, or"
                " leave it out with source.where.environments"
            )
        evaluation = state.rollouts.evaluation
        is_empty = evaluation is not None and not (evaluation.n_ended or evaluation.n_failed)
        if not (is_dry and is_empty) or state.rollouts.ready:
            return None
        n_filtered = state.rollouts.dropped_groups.get("filtered", 0)
        left_out = f"; source.where leaves out {n_filtered}" if n_filtered else ""
        return f"the recording holds no complete group that is to be evaluated{left_out}"

    def has_room(self, state: CoordinatorState) -> bool:
        """Whether more should be read."""
        config = state.config
        most = config.limits.in_flight if config.is_scored else MOST_EPISODES
        return self.n_episodes < most and self.n_bytes < MOST_BYTES

    def _stand_in(self, state: CoordinatorState, group: Group) -> Group:
        return Group(
            id=new_group_id(),
            number=0,
            purpose=EpisodePurpose.EVALUATE,
            environment=group.environment,
            task=PlayedTask(group.task.index, group.task.level),
            min_version=group.min_version,
            deadline_s=0.0,
            attempts=[1] * group.n_members,
            evaluation=evaluation_number(state, EpisodePurpose.EVALUATE),
            scores=group,
            provenance=Provenance(group.provenance.reading, task_key=group.provenance.task_key),
        )

    def _result(self, group: Group) -> Group:
        """Itself; an answer about other turns than were recorded is none."""
        assert group.scores is not None
        for member, scored in list(group.ended.items()):
            recorded = group.scores.ended[member].transcript.turns
            if len(scored.transcript.turns) != len(recorded):
                del group.ended[member]
                group.failures[member] = OTHER_TURNS
        return group


def count(rollouts: RolloutState, group: Group) -> None:
    """The group is part of the results: it gets its number, and what failed when it was recorded is told with what failed
    since."""
    assert group.scores is not None
    group.number = rollouts.next_group
    rollouts.next_group += 1
    for member, failure in group.failures.items():
        if member not in group.scores.ended:
            note_attempts(rollouts, failure, 1)
