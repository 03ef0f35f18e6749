"""The state of rollouts: groups in flight, counters and cursors. Written by `rollouts` alone.

Fields are stored with every change, but for those excluded: a coordinator that takes the run over
reads these from rows and from the run's stream.
"""

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, InstanceOf

from warren_gateway.coordinator.state.curricula import Estimates
from warren_gateway.coordinator.state.groups import Group
from warren_gateway.coordinator.state.open_groups import OpenGroups


class DueEvaluation(BaseModel):
    model_config = ConfigDict(extra="forbid")

    step: int
    """Of training, after which it is due."""
    version: int
    """The policy version in force after that step."""


class EvaluationProgress(BaseModel):
    """An evaluation under way."""

    model_config = ConfigDict(extra="forbid")

    number: int
    """Among the run's evaluations: 1, 2, 3 and so on."""
    when: Literal["before", "during", "after"]
    due: list[DueEvaluation]
    """What it answers, in the order of steps: several where one policy must do for all of them."""
    version: int
    """The policy version that plays."""
    policy_url: str | None
    n_episodes: int
    """Planned; of recorded episodes, those that were read."""
    samples: int = 1
    """Of recorded episodes, the most in one group."""
    n_admitted: int = 0
    n_ended: int = 0
    n_failed: int = 0
    reward_sum: float = 0.0
    started_s: float = 0.0
    environment_totals: dict[str, dict[str, float]] = Field(default_factory=dict)

    @property
    def step(self) -> int:
        return self.due[-1].step

    @property
    def is_done(self) -> bool:
        return self.n_ended + self.n_failed >= self.n_episodes


class RolloutState(BaseModel):
    model_config = ConfigDict(extra="forbid")

    groups: InstanceOf[OpenGroups] = Field(default_factory=OpenGroups, exclude=True)
    """Open groups."""
    ready: list[InstanceOf[Group]] = Field(default_factory=list[Group], exclude=True)
    """Complete groups that wait to be trained on, in the order of their completion."""
    held_out: list[InstanceOf[Group]] = Field(default_factory=list[Group], exclude=True)
    """Rows that wait for the others of their evaluation in SFT."""
    stream_offset: int = Field(default=0, exclude=True)
    """The next trajectory message to be read."""
    n_started_now: int = Field(default=0, exclude=True)
    """New episodes of the decision under way."""
    unhosted: frozenset[int] = Field(default=frozenset(), exclude=True)
    """Environments that no env worker offered at the last decision."""
    comparing: list[str] = Field(default_factory=list[str])
    """Environments, each once, that compare their groups themselves, as the ends of episodes told."""
    is_away: bool = Field(default=False, exclude=True)
    """At the last decision some episodes could be played by nobody."""

    n_admitted: int = 0
    """Groups of this stage that were admitted and not dropped."""
    next_group: int = 0
    task_cursors: dict[str, int] = Field(default_factory=dict)
    """Next task index, by purpose and environment."""
    tasks_again: list[tuple[str, int, int]] = Field(default_factory=list[tuple[str, int, int]])
    """Purpose, environment and index of tasks that a resumed run had in flight."""
    curricula: dict[str, Estimates] = Field(default_factory=dict[str, Estimates])
    """By number of the environment, for those that have a curriculum."""
    evaluation: EvaluationProgress | None = None
    n_evaluations: int = 0
    """That have begun."""
    due_evaluations: list[DueEvaluation] = Field(default_factory=list[DueEvaluation])
    """Those that wait for their turn, in the order of steps."""
    reward_before: float | None = None
    reward_after: float | None = None
    n_episodes: int = 0
    n_tokens: int = 0
    failures: dict[str, int] = Field(default_factory=dict[str, int])
    """By kind: attempts that others followed, and those that decided members of closed groups. What
    failed last of an open group is read again after a takeover."""
    dropped_groups: dict[str, int] = Field(default_factory=dict[str, int])
    """Complete groups that will not be trained on, by reason."""
    is_failure_told: bool = False
    n_failures_at_first: int = 0
    """Of environments, before the run's first episode completed."""
    last_failure_at_first: str = ""
    n_failed_groups_in_a_row: int = 0

    @property
    def resume_offset(self) -> int:
        """Where another coordinator must begin to read to see every ending still of use."""
        held = [g.first_offset for g in self.groups.values() if g.first_offset is not None]
        return min([*held, self.stream_offset])
