"""Where the complete groups of a run come from: live episodes, or the recording of another run.

Training and SFT take batches of groups from `state.rollouts.ready` and don't ask where they come from.
What differs is here: how more of them are asked for, when there will be no more, what is too old to
be trained on, and how a group is put away. Evaluation is always live.
"""

import math
from collections.abc import Sequence

from warren_gateway.coordinator.rollouts import episodes, group_policy
from warren_gateway.coordinator.rollouts.completed import note_dropped
from warren_gateway.coordinator.rollouts.counted import Counted
from warren_gateway.coordinator.rollouts.outcomes import outcomes
from warren_gateway.coordinator.rollouts.recording import Recording
from warren_gateway.coordinator.rollouts.trainable import other_tokenizer
from warren_gateway.coordinator.rollouts.versions import recorded_versions, staleness
from warren_gateway.coordinator.state.coordinator import CoordinatorState
from warren_gateway.coordinator.state.groups import Group
from warren_gateway.coordinator.state.learning import LearningState
from warren_gateway.coordinator.state.rollouts import RolloutState
from warren_schemas.episode import EpisodeEnded, EpisodePurpose
from warren_schemas.events import Phase
from warren_schemas.training import is_full

STEPS_AHEAD = 4
"""Steps of a replay whose ops may be unanswered: reading is faster than training."""
SILENCE_S = 60.0
"""A recording that is known to go on, and does not come for this long, is no longer there."""


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

    def resume_offset(self, rollouts: RolloutState) -> int | None:
        return None

    def enter_stage(self, state: CoordinatorState) -> None:
        """Nothing to do: episodes are asked for as the stage goes on."""

    def leave_stage(self, state: CoordinatorState) -> None:
        state.rollouts.ready.clear()

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


class Recorded:
    """The recording of another run, read no faster than it is consumed."""

    is_live = False

    def __init__(self, recording: Recording, now_s: float) -> None:
        self.recording = recording
        self._later: list[Group] = []
        """Complete groups of a stage to come."""
        self._newest: Sequence[EpisodeEnded] = ()
        """What was read last, to tell whose tokens these are."""
        self._heard_s = now_s
        self._followed_s = now_s
        """When a recording that goes on was last known to grow, or not needed to."""

    def read(
        self,
        state: CoordinatorState,
        items: Sequence[EpisodeEnded],
        offset: int,
        counted: Counted,
    ) -> None:
        """Take in one message of the recording."""
        self._heard_s = self._followed_s = state.now_s
        self._newest = items
        completed, given_up = self.recording.take(items, offset, counted)
        for group in completed:
            group.environment = _environment(state, group)
            if group_policy.is_usable(state.config, group):
                self._later.append(group)
            else:
                note_dropped(state.rollouts, "failed")
                self.close(state, group, "failed")
        for group in given_up:
            state.change.replayed.append((group, outcomes(state, group, "incomplete")))
        self.enter_stage(state)

    def wants_more(self, state: CoordinatorState) -> bool:
        """Whether the next message should be read."""
        return (
            state.stage.phase in (Phase.SFT, Phase.TRAINING)
            and not state.is_over
            and not self.is_dry()
            and len(state.rollouts.ready) < state.groups_per_batch
        )

    def resume_offset(self, rollouts: RolloutState) -> int | None:
        held = [*self.recording.open.values(), *self._later, *rollouts.ready]
        offsets = [group.first_offset for group in held if group.first_offset is not None]
        return min(offsets, default=self.recording.next_offset)

    def request(
        self,
        state: CoordinatorState,
        purpose: EpisodePurpose,
        n_groups: int,
        n_members: int | None = None,
    ) -> None:
        """Nothing to ask for: what was recorded comes as it is consumed."""

    def enter_stage(self, state: CoordinatorState) -> None:
        """Give the stage its groups; demonstrations come before everything else or not at all."""
        is_sft = state.stage.phase is Phase.SFT
        if not is_sft and state.stage.phase is not Phase.TRAINING:
            return
        waiting, self._later = self._later, []
        for group in waiting:
            is_demonstration = group.purpose is EpisodePurpose.DEMONSTRATE
            if is_demonstration is is_sft:
                state.rollouts.ready.append(group)
            elif is_sft:
                self._later.append(group)
            else:
                self.close(state, group, "abandoned")

    def leave_stage(self, state: CoordinatorState) -> None:
        for group in state.rollouts.ready:
            self.close(state, group, "abandoned")
        state.rollouts.ready.clear()

    def can_step(self, learning: LearningState) -> bool:
        return len(learning.pending) < STEPS_AHEAD

    def is_dry(self) -> bool:
        return self.recording.is_read or bool(self._later)

    def is_stale(self, group: Group, version: int, max_staleness: int) -> bool:
        """Never: what was recorded is corrected for by its logprobs, however old it is."""
        return False

    def close(self, state: CoordinatorState, group: Group, fate: str) -> None:
        self.recording.close(group)
        state.change.replayed.append((group, outcomes(state, group, fate)))
        if fate == "trained":
            state.rollouts.n_episodes += len(group.completed)
            state.rollouts.n_tokens += sum(
                item.transcript.tokens.n_sampled for item, _ in group.completed
            )

    def metrics(self, groups: Sequence[Group], version: int) -> dict[str, float]:
        return recorded_versions(groups)

    def failure(self, state: CoordinatorState) -> str | None:
        return self._foreign(state) or self._silence(state)

    def _foreign(self, state: CoordinatorState) -> str | None:
        """Whoever reads a message decides before it trains on what that held."""
        reasons = (other_tokenizer(item, state.learning.tokenizer) for item in self._newest)
        reason = next(filter(None, reasons), None)
        advice = f"replay {self.recording.run} with a model.base that has its tokenizer"
        return None if reason is None else f"{reason}; {advice}"

    def _silence(self, state: CoordinatorState) -> str | None:
        is_waiting = self.wants_more(state) and self.recording.end_offset is not None
        if not is_waiting or state.observed.is_broker_away:
            self._heard_s = state.now_s
        if state.now_s - self._heard_s <= SILENCE_S:
            return None
        return (
            f"the recording of {self.recording.run} can't be read from offset"
            f" {self.recording.next_offset or 0} on; it may be older than its retention"
        )

    def missing(self, state: CoordinatorState) -> str | None:
        if not self.wants_more(state) or self.recording.end_offset is not None:
            self._followed_s = state.now_s
        if state.now_s - self._followed_s <= SILENCE_S:
            return None
        more = state.observed.advice.more_capacity(
            state.spec.base_model, is_full=is_full(state.spec)
        )
        return (
            f"{self.recording.run}, which this replay follows, has not ended and records nothing; if it"
            f" waits for a trainer, {f'{more}, or ' if more else ''}cancel one of the two with:"
            f" warren runs cancel {state.run}"
        )

    def next_check_s(self, state: CoordinatorState) -> float:
        if not self.wants_more(state):
            return math.inf
        is_over = self.recording.end_offset is not None
        due_s = (self._heard_s if is_over else self._followed_s) + SILENCE_S + 1.0
        return due_s if is_over or due_s > state.now_s else math.inf


def _environment(state: CoordinatorState, group: Group) -> int:
    """Which of the replay's environments the group is of, whose rules for groups count: the one that stands
    where it stood in the run, or else the first of its name."""
    names = [environment.name for environment in state.config.environments]
    recorded = next((item.spec.environment for item in group.ended.values()), "")
    if names[group.environment : group.environment + 1] == [recorded]:
        return group.environment
    return names.index(recorded) if recorded in names else 0
