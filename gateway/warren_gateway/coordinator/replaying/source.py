"""The recordings of other runs as the source of a run's groups, one after the other and no faster than consumed.

Invariants: what comes out, and in which order, is a function of the recordings and of the config, whoever reads them and how often; a group
that the config's filter does not admit is put away as `filtered`, as if it had not been recorded.
"""

import math
from collections.abc import Sequence

from warren_gateway.coordinator.replaying.evaluating import Evaluating, count
from warren_gateway.coordinator.replaying.facts import environment_of, facts_of
from warren_gateway.coordinator.replaying.read_failures import silent, wrong
from warren_gateway.coordinator.replaying.readings import Readings
from warren_gateway.coordinator.replaying.recording import Recording
from warren_gateway.coordinator.replaying.scoring import Scoring
from warren_gateway.coordinator.replaying.shuffling import Window
from warren_gateway.coordinator.rollouts import failed_members
from warren_gateway.coordinator.rollouts.admission import STEPS_SCORED
from warren_gateway.coordinator.rollouts.completed import note_dropped
from warren_gateway.coordinator.rollouts.outcomes import outcomes
from warren_gateway.coordinator.rollouts.starting import evaluation_number
from warren_gateway.coordinator.rollouts.trainable import other_tokenizer
from warren_gateway.coordinator.rollouts.versions import recorded_versions
from warren_gateway.coordinator.state.coordinator import CoordinatorState
from warren_gateway.coordinator.state.groups import Group
from warren_gateway.coordinator.state.learning import LearningState
from warren_gateway.coordinator.state.recorded import Message
from warren_gateway.coordinator.state.rollouts import RolloutState
from warren_gateway.coordinator.state.source import ReadFrom
from warren_gateway.evaluations.samples import INCOMPLETE
from warren_schemas.config import RecordingFilter
from warren_schemas.episode import EpisodeEnded, EpisodePurpose
from warren_schemas.events import Phase
from warren_schemas.training import is_full

STEPS_AHEAD = 4
"""Steps of a replay whose ops may be unanswered: reading is faster than training."""
SILENCE_S = 60.0
"""A recording that is known to go on, and does not come for this long, is no longer there."""


class Recorded:
    is_live = False

    def __init__(
        self,
        readings: Readings,
        now_s: float,
        *,
        where: RecordingFilter,
        window: Window,
        is_scored: bool = False,
        is_evaluated: bool = False,
    ) -> None:
        """`is_scored`: the rewards that were recorded don't count; `is_evaluated`: nothing is learned."""
        self.readings = readings
        self._is_scored = is_scored
        self._evaluating = Evaluating() if is_evaluated else None
        self._scoring = self._evaluating or Scoring()
        self._where = where
        self._later: list[Group] = []
        """Complete groups of a stage to come."""
        self.window = window
        """Those of this stage."""
        self._is_fruitful = bool(readings.recording.closed)
        """Whether this epoch has groups of this stage, as far as is known."""
        self._newest: Sequence[EpisodeEnded] = ()
        """What was read last, to tell whose tokens these are."""
        self._heard_s = now_s
        self._followed_s = now_s
        """When a recording that goes on was last known to grow, or not needed to."""

    @property
    def recording(self) -> Recording:
        return self.readings.recording

    @property
    def unscored(self) -> str | None:
        """Why an episode, the last of them, could not be scored anew."""
        return self._scoring.trouble

    def go_on(self, state: CoordinatorState) -> None:
        """Turn to the next recording where this one was read, and to the next epoch after the last one."""
        while self.recording.is_read and not (self._later or self._scoring.held):
            if self.readings.ends_epoch:
                self._end_epoch(state)
            if self.readings.is_last:
                return self._end_evaluation(state)
            self._give_up(state, self.recording.give_up_all())
            self._is_fruitful = self._is_fruitful and not self.readings.ends_epoch
            self.readings.go_on()
            self._heard_s = self._followed_s = state.now_s

    def _end_epoch(self, state: CoordinatorState) -> None:
        """One in which there was nothing is not followed by another."""
        state.rollouts.ready += self.window.empty()
        if not self._is_fruitful:
            self.readings.end_with_this_epoch()

    def _end_evaluation(self, state: CoordinatorState) -> None:
        """Its results say how many groups they are without."""
        if self._evaluating is not None:
            self._give_up(state, self.recording.give_up_all())

    def _give_up(self, state: CoordinatorState, groups: Sequence[Group]) -> None:
        """Members of these never ended."""
        for group in groups:
            group.provenance.reading = self.readings.now
            group.environment = environment_of(state, group)
            if self._evaluating is not None and self._where.admits(facts_of(group)):
                group.evaluation = evaluation_number(state, EpisodePurpose.EVALUATE)
            state.change.replayed.append((group, outcomes(state, group, INCOMPLETE)))

    def read(self, state: CoordinatorState, message: Message) -> None:
        """Take in one message of the recording that is read now."""
        self._heard_s = self._followed_s = state.now_s
        self._newest = [ending.item for ending in message.endings]
        completed, given_up = self.recording.take(message)
        for group in completed:
            group.provenance.reading = self.readings.now
            group.environment = environment_of(state, group)
            if not self._where.is_off and not self._where.admits(facts_of(group)):
                note_dropped(state.rollouts, "filtered")
                self.close(state, group, "filtered")
            elif self._evaluating is not None:
                group.provenance.task_key = self.recording.task_of(group)
                self._scoring.put(state, group)
            elif self._is_scored and failed_members.is_usable(state.config, group):
                self._scoring.put(state, group)
            else:
                self._take_in(state, group)
        self._give_up(state, given_up)
        self.enter_stage(state)

    def _take_in(self, state: CoordinatorState, group: Group) -> None:
        if self._evaluating is not None or failed_members.is_usable(state.config, group):
            self._later.append(group)
        else:
            note_dropped(state.rollouts, "failed")
            self.close(state, group, "failed")

    def score(self, state: CoordinatorState) -> None:
        """Have scored what there is room for, and take in what was."""
        if scored := self._scoring.go_on(state):
            for group in scored:
                self._take_in(state, group)
            self.enter_stage(state)

    def wants_more(self, state: CoordinatorState) -> bool:
        """Whether the next message should be read."""
        return (
            self._is_for(state.stage.phase)
            and not state.is_over
            and not (self.is_dry() or self.recording.is_read)
            and self._has_room(state)
        )

    def _is_for(self, phase: Phase) -> bool:
        if self._evaluating is not None:
            return phase is Phase.EVALUATION
        return phase in (Phase.SFT, Phase.TRAINING)

    def _has_room(self, state: CoordinatorState) -> bool:
        """For more groups that were read and not consumed."""
        if self._evaluating is not None:
            return self._evaluating.has_room(state)
        most = state.groups_per_batch * (STEPS_SCORED if self._is_scored else 1)
        return len(state.rollouts.ready) + len(self._scoring.held) < most

    def read_from(self, rollouts: RolloutState) -> ReadFrom | None:
        now, here = self.readings.now, self.recording
        held = (*self._scoring.held, *self._later, *self.window.held, *rollouts.ready)
        recorded = [group.scores or group for group in held]
        places = [ReadFrom(group.provenance.reading, group.first_offset) for group in recorded]
        places += [ReadFrom(now, group.first_offset) for group in here.open.values()]
        return min(places, default=ReadFrom(now, here.next_offset))

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
        if not self._is_for(state.stage.phase):
            return
        waiting, self._later = self._later, []
        for group in waiting:
            is_demonstration = group.purpose is EpisodePurpose.DEMONSTRATE
            if is_demonstration is is_sft:
                self._is_fruitful = True
                state.rollouts.ready += self.window.put(group)
            elif is_sft:
                self._later.append(group)
            else:
                self.close(state, group, "abandoned")
        if self._later:
            state.rollouts.ready += self.window.empty()
        self.go_on(state)  # what waited for this stage may have been the last of the recording

    def leave_stage(self, state: CoordinatorState) -> None:
        abandoned = [*state.rollouts.ready, *self.window.empty()]
        if state.is_over or state.stage.phase is Phase.TRAINING or self._evaluating is not None:
            abandoned += self._scoring.empty(state)
        for group in abandoned:
            self.close(state, group, "abandoned")
        state.rollouts.ready.clear()

    def can_step(self, learning: LearningState) -> bool:
        return len(learning.steps.pending) < STEPS_AHEAD

    def is_dry(self) -> bool:
        is_read = self.readings.is_last and self.recording.is_read
        return (is_read and not self._scoring.held) or bool(self._later)

    def is_stale(self, group: Group, version: int, max_staleness: int) -> bool:
        """Never: what was recorded is corrected for by its logprobs, however old it is."""
        return False

    def close(self, state: CoordinatorState, group: Group, fate: str) -> None:
        recorded = group.scores or group
        if recorded.provenance.reading == self.readings.now:
            self.recording.close(recorded)
        is_counted = fate == "evaluated"
        if is_counted:
            count(state.rollouts, group)
        shown = group if is_counted else recorded
        state.change.replayed.append((shown, outcomes(state, shown, fate)))
        if fate in ("trained", "evaluated"):
            state.rollouts.n_episodes += len(group.completed)
            state.rollouts.n_tokens += sum(item.transcript.n_sampled for item, _ in group.completed)

    def metrics(self, groups: Sequence[Group], version: int) -> dict[str, float]:
        return recorded_versions(groups)

    def failure(self, state: CoordinatorState) -> str | None:
        if self._evaluating is not None:
            return (
                self._evaluating.failure(state, is_dry=self.is_dry())
                or wrong(self.recording)
                or self._silence(state)
            )
        return self._foreign(state) or wrong(self.recording) or self._silence(state)

    def _foreign(self, state: CoordinatorState) -> str | None:
        """Whoever reads a message decides before it trains on what that held."""
        reasons = (other_tokenizer(item, state.learning.policy.tokenizer) for item in self._newest)
        reason = next(filter(None, reasons), None)
        advice = f"replay {self.recording.name} with a model.base that has its tokenizer"
        return None if reason is None else f"{reason}; {advice}"

    def _silence(self, state: CoordinatorState) -> str | None:
        is_waiting = self.wants_more(state) and self.recording.end_offset is not None
        if not is_waiting or state.observed.is_broker_away:
            self._heard_s = state.now_s
        if state.now_s - self._heard_s <= SILENCE_S:
            return None
        return silent(self.recording)

    def missing(self, state: CoordinatorState) -> str | None:
        if not self.wants_more(state) or self.recording.end_offset is not None:
            self._followed_s = state.now_s
        if state.now_s - self._followed_s <= SILENCE_S:
            return None
        more = state.observed.advice.more_capacity(
            state.spec.base_model, is_full=is_full(state.spec)
        )
        return (
            f"{self.recording.name}, which this replay follows, has not ended and records nothing; if it"
            f" waits for a trainer, {f'{more}, or ' if more else ''}cancel one of the two with:"
            f" warren runs cancel {state.run}"
        )

    def next_check_s(self, state: CoordinatorState) -> float:
        if not self.wants_more(state):
            return math.inf
        is_over = self.recording.end_offset is not None
        due_s = (self._heard_s if is_over else self._followed_s) + SILENCE_S + 1.0
        return due_s if is_over or due_s > state.now_s else math.inf
