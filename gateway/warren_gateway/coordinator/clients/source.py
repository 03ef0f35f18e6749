"""No groups at all: what is trained on comes with the client's requests."""

import math
from collections.abc import Sequence

from warren_gateway.coordinator.state.coordinator import CoordinatorState
from warren_gateway.coordinator.state.groups import Group
from warren_gateway.coordinator.state.learning import LearningState
from warren_gateway.coordinator.state.rollouts import RolloutState
from warren_gateway.coordinator.state.source import ReadFrom
from warren_schemas.episode import EpisodePurpose


class ByClient:
    is_live = False

    def request(
        self,
        state: CoordinatorState,
        purpose: EpisodePurpose,
        n_groups: int,
        n_members: int | None = None,
    ) -> None:
        """Nothing can be asked for."""

    def read_from(self, rollouts: RolloutState) -> ReadFrom | None:
        return None

    def enter_stage(self, state: CoordinatorState) -> None:
        """Nothing to prepare."""

    def leave_stage(self, state: CoordinatorState) -> None:
        """Nothing is left over."""

    def can_step(self, learning: LearningState) -> bool:
        return False

    def is_dry(self) -> bool:
        return False

    def is_stale(self, group: Group, version: int, max_staleness: int) -> bool:
        return False

    def close(self, state: CoordinatorState, group: Group, fate: str) -> None:
        """There are no groups."""

    def metrics(self, groups: Sequence[Group], version: int) -> dict[str, float]:
        return {}

    def failure(self, state: CoordinatorState) -> str | None:
        return None

    def missing(self, state: CoordinatorState) -> str | None:
        return None

    def next_check_s(self, state: CoordinatorState) -> float:
        return math.inf
