"""Where the complete groups of a run come from, as the rest of the coordinator sees it.

Generic over the state that it works on, so that the state can hold one without an import circle;
`rollouts.source` and `replaying.source` have the two that there are.
"""

from collections.abc import Sequence
from typing import NamedTuple, Protocol, TypeVar

from warren_gateway.coordinator.state.group_parts import Reading
from warren_gateway.coordinator.state.groups import Group
from warren_gateway.coordinator.state.learning import LearningState
from warren_gateway.coordinator.state.rollouts import RolloutState
from warren_schemas.episode import EpisodePurpose


class ReadFrom(NamedTuple):
    reading: Reading
    offset: int | None
    """None: where it is to begin."""


StateT_contra = TypeVar("StateT_contra", contravariant=True)


class Source(Protocol[StateT_contra]):
    @property
    def is_live(self) -> bool: ...
    def request(
        self,
        state: StateT_contra,
        purpose: EpisodePurpose,
        n_groups: int,
        n_members: int | None = None,
    ) -> None:
        """Ask for this many groups more, of `n_members` or what the config says."""
        ...

    def read_from(self, rollouts: RolloutState) -> ReadFrom | None:
        """Where in its recordings another coordinator must read on; None where there are none."""
        ...

    def enter_stage(self, state: StateT_contra) -> None:
        """A stage has begun."""
        ...

    def leave_stage(self, state: StateT_contra) -> None:
        """A stage, or the run, is over: what waits for it is of no use."""
        ...

    def can_step(self, learning: LearningState) -> bool:
        """Whether a batch that is there may be consumed now."""
        ...

    def is_dry(self) -> bool:
        """Whether nothing more will come for this stage."""
        ...

    def is_stale(self, group: Group, version: int, max_staleness: int) -> bool:
        """Whether the group is too old to be trained on at this policy version."""
        ...

    def close(self, state: StateT_contra, group: Group, fate: str) -> None:
        """The group needs nothing more; `fate` says what it was good for."""
        ...

    def metrics(self, groups: Sequence[Group], version: int) -> dict[str, float]:
        """How far the batch is from the policy that is trained."""
        ...

    def failure(self, state: StateT_contra) -> str | None:
        """Why the run can't go on, where it can't."""
        ...

    def missing(self, state: StateT_contra) -> str | None:
        """What the run waits for, where nothing has come for long."""
        ...

    def next_check_s(self, state: StateT_contra) -> float:
        """When to ask for these again if nothing comes in."""
        ...
