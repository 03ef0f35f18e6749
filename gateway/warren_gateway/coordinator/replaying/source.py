"""The recordings of other runs as the source of a run's groups, one after the other and no faster than consumed.

Invariants: what comes out is a function of the recordings and of the config, whoever reads them and how often; a group
that the config's filter does not admit is put away as `filtered`, as if it had not been recorded.
"""

import math
from collections.abc import Sequence

import numpy as np

from warren_broker.port import FromTime
from warren_gateway.coordinator.replaying.counted import Counted
from warren_gateway.coordinator.replaying.recording import Recording
from warren_gateway.coordinator.rollouts import group_policy
from warren_gateway.coordinator.rollouts.completed import note_dropped
from warren_gateway.coordinator.rollouts.outcomes import outcomes
from warren_gateway.coordinator.rollouts.trainable import other_tokenizer
from warren_gateway.coordinator.rollouts.versions import recorded_versions
from warren_gateway.coordinator.state.coordinator import CoordinatorState
from warren_gateway.coordinator.state.groups import Group
from warren_gateway.coordinator.state.learning import LearningState
from warren_gateway.coordinator.state.rollouts import RolloutState
from warren_gateway.coordinator.state.source import ReadFrom
from warren_schemas.config import RecordedFacts, RecordingFilter
from warren_schemas.episode import EpisodeEnded, EpisodePurpose
from warren_schemas.events import Phase
from warren_schemas.ids import GroupId, RunId
from warren_schemas.training import is_full

STEPS_AHEAD = 4
"""Steps of a replay whose ops may be unanswered: reading is faster than training."""
SILENCE_S = 60.0
"""A recording that is known to go on, and does not come for this long, is no longer there."""


class Recorded:
    is_live = False

    def __init__(
        self,
        recordings: Sequence[Recording],
        now_s: float,
        *,
        where: RecordingFilter,
        number: int = 0,
    ) -> None:
        """`number`: of the recording to be read next, which is the first that is not read."""
        self.recordings = recordings
        self.number = number
        self._where = where
        self._numbers: dict[GroupId, int] = {}
        """Of the recordings that hold the groups which are not consumed yet."""
        self._later: list[Group] = []
        """Complete groups of a stage to come."""
        self._newest: Sequence[EpisodeEnded] = ()
        """What was read last, to tell whose tokens these are."""
        self._heard_s = now_s
        self._followed_s = now_s
        """When a recording that goes on was last known to grow, or not needed to."""

    @property
    def recording(self) -> Recording:
        """The one that is read now."""
        return self.recordings[self.number]

    def go_on(self, state: CoordinatorState) -> RunId | None:
        """Turn to the next recording where this one was read; the run of the one that was."""
        read = self.recording
        if not read.is_read or self.number + 1 == len(self.recordings):
            return None
        for group in read.open.values():
            read.closed.add(group.id)
            state.change.replayed.append((group, outcomes(state, group, "incomplete")))
        read.open.clear()
        self.number += 1
        self._heard_s = self._followed_s = state.now_s
        return read.run

    def read(
        self,
        state: CoordinatorState,
        items: Sequence[EpisodeEnded],
        offset: int,
        counted: Counted,
    ) -> None:
        """Take in one message of the recording that is read now."""
        self._heard_s = self._followed_s = state.now_s
        self._newest = items
        completed, given_up = self.recording.take(items, offset, counted)
        for group in completed:
            self._numbers[group.id] = self.number
            group.environment = _environment(state, group)
            if not self._where.is_off and not self._where.admits(_facts(group)):
                note_dropped(state.rollouts, "filtered")
                self.close(state, group, "filtered")
            elif group_policy.is_usable(state.config, group):
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

    def read_from(self, rollouts: RolloutState) -> ReadFrom | None:
        here = self.recording
        held = [(self._numbers[group.id], group) for group in (*self._later, *rollouts.ready)]
        held += [(self.number, group) for group in here.open.values()]
        places = [(n, g.first_offset) for n, g in held if g.first_offset is not None]
        number, offset = min(places, default=(self.number, here.next_offset))
        return ReadFrom(number, offset)

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
        is_last = self.number + 1 == len(self.recordings)
        return (is_last and self.recording.is_read) or bool(self._later)

    def is_stale(self, group: Group, version: int, max_staleness: int) -> bool:
        """Never: what was recorded is corrected for by its logprobs, however old it is."""
        return False

    def close(self, state: CoordinatorState, group: Group, fate: str) -> None:
        self.recordings[self._numbers.pop(group.id)].close(group)
        state.change.replayed.append((group, outcomes(state, group, fate)))
        if fate == "trained":
            state.rollouts.n_episodes += len(group.completed)
            state.rollouts.n_tokens += sum(item.transcript.n_sampled for item, _ in group.completed)

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
        here = self.recording
        if isinstance(here.read_from, FromTime):
            return f"{here.run} recorded nothing from that time on; leave it out, or replay from an earlier time"
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


def _facts(group: Group) -> RecordedFacts:
    """Of a group as a whole; its reward is the mean of its episodes."""
    items, rewards = list(group.ended.values()), [o.reward for _, o in group.completed]
    return RecordedFacts(
        reward=float(np.mean(rewards)) if rewards else None,
        environment=items[0].spec.environment if items else "",
        category=group.category,
        versions=(
            group.oldest_version,
            max((item.transcript.newest_version for item in items), default=-1),
        ),
        fates=frozenset(group.recorded_fates),
        ended_s=max((item.ended_s for item in items), default=0.0),
    )
