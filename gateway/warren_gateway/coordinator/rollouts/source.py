"""Where the complete groups of a run come from: live episodes (`replaying.source`: recordings of other runs).

Training and SFT take batches of groups from `state.rollouts.ready` and don't ask where they come from.
What differs is here: how more of them are asked for, when there will be no more, what is too old to
be trained on, and how a group is put away. Evaluation is always live.
"""

import math
from collections.abc import Sequence

from warren_gateway.coordinator.rollouts import episodes
from warren_gateway.coordinator.rollouts.versions import staleness
from warren_gateway.coordinator.state.coordinator import CoordinatorState
from warren_gateway.coordinator.state.groups import Group
from warren_gateway.coordinator.state.learning import LearningState
from warren_gateway.coordinator.state.rollouts import RolloutState
from warren_gateway.coordinator.state.source import ReadFrom
from warren_schemas.episode import EpisodePurpose


class Live:
    """Episodes that the run's own policy plays; `training` paces them."""

    is_live = True

    def request(
        self,
        state: CoordinatorState,
        purpose: EpisodePurpose,
        n_groups: int,
        n_members: int | None = None,
    ) -> None:
        if n_groups > 0:
            admitted = episodes.admit(state, purpose, n_groups, n_members)
            state.rollouts.n_admitted += admitted

    def read_from(self, rollouts: RolloutState) -> ReadFrom | None:
        return None

    def enter_stage(self, state: CoordinatorState) -> None:
        """Nothing to do: episodes are asked for as the stage goes on."""

    def leave_stage(self, state: CoordinatorState) -> None:
        state.rollouts.ready.clear()
        state.rollouts.held_out.clear()

    def can_step(self, learning: LearningState) -> bool:
        return True

    def is_dry(self) -> bool:
        return False

    def is_stale(self, group: Group, version: int, max_staleness: int) -> bool:
        return version - group.oldest_version > max_staleness

    def close(self, state: CoordinatorState, group: Group, fate: str) -> None:
        episodes.close(state, group, fate)

    def metrics(self, groups: Sequence[Group], version: int) -> dict[str, float]:
        return staleness(groups, version)

    def failure(self, state: CoordinatorState) -> str | None:
        return None

    def missing(self, state: CoordinatorState) -> str | None:
        return None

    def next_check_s(self, state: CoordinatorState) -> float:
        return math.inf
