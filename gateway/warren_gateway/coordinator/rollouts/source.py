"""Where the complete groups of a run come from: live episodes, or the recording of another run.

Training and SFT take batches of groups from `memory.ready` and don't ask where they come from.
What differs is here: how more of them are asked for, when there will be no more, what is too old to
be trained on, and how a group is put away. Evaluation is always live.
"""

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Protocol

from warren_gateway.coordinator.learning.batch_metrics import recorded_versions, staleness
from warren_gateway.coordinator.rollouts import episodes
from warren_gateway.coordinator.rollouts.groups import Group
from warren_gateway.coordinator.rollouts.recording import Recording
from warren_schemas.episode import EpisodeEnded, EpisodePurpose
from warren_schemas.events import Phase
from warren_schemas.training import is_full

if TYPE_CHECKING:
    from warren_gateway.coordinator.state import Memory

STEPS_AHEAD = 4
"""Steps of a replay whose ops may be unanswered: reading is faster than training."""
SILENCE_S = 60.0
"""A recording that is known to go on, and does not come for this long, is no longer there."""


class Source(Protocol):
    @property
    def is_live(self) -> bool: ...
    def request(
        self, memory: "Memory", purpose: EpisodePurpose, n_groups: int, n_members: int | None = None
    ) -> None:
        """Ask for this many groups more, of `n_members` or what the config says."""
        ...

    def resume_offset(self, memory: "Memory") -> int | None:
        """Where in a recording another coordinator must read on; None where there is none."""
        ...

    def enter(self, memory: "Memory") -> None:
        """A stage has begun."""
        ...

    def leave(self, memory: "Memory") -> None:
        """A stage, or the run, is over: what waits for it is of no use."""
        ...

    def can_step(self, memory: "Memory") -> bool:
        """Whether a batch that is there may be consumed now."""
        ...

    def is_dry(self, memory: "Memory") -> bool:
        """Whether nothing more will come for this stage."""
        ...

    def is_stale(self, memory: "Memory", group: Group) -> bool:
        """Whether the group is too old to be trained on."""
        ...

    def close(self, memory: "Memory", group: Group, fate: str) -> None:
        """The group needs nothing more; `fate` says what it was good for."""
        ...

    def metrics(self, memory: "Memory", groups: Sequence[Group]) -> dict[str, float]:
        """How far the batch is from the policy that is trained."""
        ...

    def failure(self, memory: "Memory") -> str | None:
        """Why the run can't go on, where it can't."""
        ...

    def missing(self, memory: "Memory") -> str | None:
        """What the run waits for, where nothing has come for long."""
        ...

    def next_check_s(self, memory: "Memory") -> float:
        """When to ask for these again if nothing comes in."""
        ...


class Live:
    """Episodes that the run's own policy plays; `training` paces them."""

    is_live = True

    def request(
        self, memory: "Memory", purpose: EpisodePurpose, n_groups: int, n_members: int | None = None
    ) -> None:
        if n_groups > 0:
            admitted = episodes.admit(memory, purpose, n_groups, n_members)
            memory.progress.n_admitted += admitted

    def resume_offset(self, memory: "Memory") -> int | None:
        return None

    def enter(self, memory: "Memory") -> None:
        """Nothing to do: episodes are asked for as the stage goes on."""

    def leave(self, memory: "Memory") -> None:
        memory.ready.clear()

    def can_step(self, memory: "Memory") -> bool:
        return True

    def is_dry(self, memory: "Memory") -> bool:
        return False

    def is_stale(self, memory: "Memory", group: Group) -> bool:
        lag = memory.progress.version_issued - group.oldest_version
        return lag > memory.config.algorithm.max_staleness

    def close(self, memory: "Memory", group: Group, fate: str) -> None:
        episodes.close(memory, group, fate)

    def metrics(self, memory: "Memory", groups: Sequence[Group]) -> dict[str, float]:
        return staleness(groups, memory.progress.version_issued)

    def failure(self, memory: "Memory") -> str | None:
        return None

    def missing(self, memory: "Memory") -> str | None:
        return None

    def next_check_s(self, memory: "Memory") -> float:
        return math.inf


class Recorded:
    """The recording of another run, read no faster than it is consumed."""

    is_live = False

    def __init__(self, recording: Recording, now_s: float) -> None:
        self.recording = recording
        self._later: list[Group] = []
        """Complete groups of a stage to come."""
        self._heard_s = now_s
        self._followed_s = now_s
        """When a recording that goes on was last known to grow, or not needed to."""

    def read(
        self, memory: "Memory", items: Sequence[EpisodeEnded], offset: int, is_usable: "IsUsable"
    ) -> None:
        """Take in one message of the recording."""
        self._heard_s = self._followed_s = memory.now_s
        completed, given_up = self.recording.take(items, offset)
        for group in completed:
            group.environment = _environment(memory, group)
            if is_usable(memory, group):
                self._later.append(group)
            else:
                self.close(memory, group, "failed")
        for group in given_up:
            memory.change.replayed.append((group, episodes.outcomes(memory, group, "incomplete")))
        self.enter(memory)

    def wants_more(self, memory: "Memory") -> bool:
        """Whether the next message should be read."""
        return (
            memory.stage.phase in (Phase.SFT, Phase.TRAINING)
            and not memory.is_over
            and not self.is_dry(memory)
            and len(memory.ready) < memory.groups_per_batch
        )

    def resume_offset(self, memory: "Memory") -> int | None:
        held = [*self.recording.open.values(), *self._later, *memory.ready]
        offsets = [group.first_offset for group in held if group.first_offset is not None]
        return min(offsets, default=self.recording.next_offset)

    def request(
        self, memory: "Memory", purpose: EpisodePurpose, n_groups: int, n_members: int | None = None
    ) -> None:
        """Nothing to ask for: what was recorded comes as it is consumed."""

    def enter(self, memory: "Memory") -> None:
        """Give the stage its groups; demonstrations come before everything else or not at all."""
        is_sft = memory.stage.phase is Phase.SFT
        if not is_sft and memory.stage.phase is not Phase.TRAINING:
            return
        waiting, self._later = self._later, []
        for group in waiting:
            is_demonstration = group.purpose is EpisodePurpose.DEMONSTRATE
            if is_demonstration is is_sft:
                memory.ready.append(group)
            elif is_sft:
                self._later.append(group)
            else:
                self.close(memory, group, "abandoned")

    def leave(self, memory: "Memory") -> None:
        for group in memory.ready:
            self.close(memory, group, "abandoned")
        memory.ready.clear()

    def can_step(self, memory: "Memory") -> bool:
        return len(memory.progress.pending) < STEPS_AHEAD

    def is_dry(self, memory: "Memory") -> bool:
        return self.recording.is_read or bool(self._later)

    def is_stale(self, memory: "Memory", group: Group) -> bool:
        """Never: what was recorded is corrected for by its logprobs, however old it is."""
        return False

    def close(self, memory: "Memory", group: Group, fate: str) -> None:
        self.recording.close(group)
        memory.change.replayed.append((group, episodes.outcomes(memory, group, fate)))
        if fate == "trained":
            memory.progress.n_episodes += len(group.completed)
            memory.progress.n_tokens += sum(
                item.transcript.tokens.n_sampled for item, _ in group.completed
            )

    def metrics(self, memory: "Memory", groups: Sequence[Group]) -> dict[str, float]:
        return recorded_versions(groups)

    def failure(self, memory: "Memory") -> str | None:
        is_waiting = self.wants_more(memory) and self.recording.end_offset is not None
        if not is_waiting or memory.is_broker_away:
            self._heard_s = memory.now_s
        if memory.now_s - self._heard_s <= SILENCE_S:
            return None
        return (
            f"the recording of {self.recording.run} can't be read from offset"
            f" {self.recording.next_offset or 0} on; it may be older than its retention"
        )

    def missing(self, memory: "Memory") -> str | None:
        if not self.wants_more(memory) or self.recording.end_offset is not None:
            self._followed_s = memory.now_s
        if memory.now_s - self._followed_s <= SILENCE_S:
            return None
        more = memory.advice.more_room(memory.spec.base_model, is_full=is_full(memory.spec))
        return (
            f"{self.recording.run}, which this replay follows, has not ended and records nothing; if it"
            f" waits for a trainer, {f'{more}, or ' if more else ''}cancel one of the two with:"
            f" warren runs cancel {memory.run}"
        )

    def next_check_s(self, memory: "Memory") -> float:
        if not self.wants_more(memory):
            return math.inf
        is_over = self.recording.end_offset is not None
        due_s = (self._heard_s if is_over else self._followed_s) + SILENCE_S + 1.0
        return due_s if is_over or due_s > memory.now_s else math.inf


def _environment(memory: "Memory", group: Group) -> int:
    """Which of the replay's environments has the group's name; its rules for groups count."""
    names = [environment.name for environment in memory.config.environments]
    recorded = next((item.spec.environment for item in group.ended.values()), "")
    return names.index(recorded) if recorded in names else 0


IsUsable = Callable[["Memory", Group], bool]
