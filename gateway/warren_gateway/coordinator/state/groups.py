"""Groups of episodes in flight: who has ended, who failed, who must be started again.

Invariant: each member ends at most once. An ending counts only if it belongs to the member's
current attempt, so a duplicate, or a late ending of an attempt that was given up, changes nothing.
The one that counted is known by its position in the run's stream, which tells it from others of the
same attempt, be they the very same message stored twice: what became of the member is said of it alone.
Attempts during which no worker was there, or no coordinator, and that then ran out of time are excused:
they get a number, but count for nothing.
"""

from dataclasses import dataclass, field

from warren_gateway.coordinator.state.group_parts import (
    Comparison,
    GroupUse,
    Interruption,
    PlayedTask,
    Provenance,
)
from warren_gateway.position import Position
from warren_schemas.episode import Completed, EpisodeEnded, EpisodePurpose, Failed, FailureKind
from warren_schemas.ids import EpisodeId, GroupId

_OBJECTS_BYTES = 8 * 1024
"""An episode without its tokens and texts."""


@dataclass(slots=True)
class Group:
    id: GroupId
    number: int
    purpose: EpisodePurpose
    environment: int
    task: PlayedTask
    min_version: int
    deadline_s: float
    attempts: list[int]
    ended: dict[int, EpisodeEnded] = field(default_factory=dict[int, EpisodeEnded])
    failures: dict[int, Failed] = field(default_factory=dict[int, Failed])
    counted: dict[int, Position] = field(default_factory=dict[int, Position])
    """Where the ending of each member stands that counts; none for a member that never ended, or was not compared."""
    evaluation: int | None = None
    """Number of the run's evaluation that it is part of."""
    scores: "Group | None" = None
    """The recorded group whose episodes are scored anew, or evaluated. Nothing of the group that does it is stored before
    its evaluation has counted it."""
    first_offset: int | None = None
    """Offset of the first stream message that holds one of its endings."""
    comparison: Comparison = field(default_factory=Comparison)
    interruption: Interruption = field(default_factory=Interruption)
    provenance: Provenance = field(default_factory=Provenance)
    use: GroupUse = field(default_factory=GroupUse)
    _oldest_version: int | None = None

    @property
    def n_members(self) -> int:
        return len(self.attempts)

    @property
    def is_complete(self) -> bool:
        return self.n_missing == 0

    @property
    def n_missing(self) -> int:
        """Members in flight."""
        return self.n_members - len(self.ended) - len(self.failures)

    @property
    def missing(self) -> list[int]:
        return [m for m in range(self.n_members) if not self.has_ended(m)]

    @property
    def playing(self) -> list[int]:
        """Members of which nobody knows yet how they end."""
        return [m for m in self.missing if m not in self.comparison.unscored]

    @property
    def own_failures(self) -> dict[int, Failed]:
        """Of members that ended in the recording, where this scores one."""
        if self.scores is None:
            return self.failures
        recorded = self.scores.ended
        return {member: why for member, why in self.failures.items() if member in recorded}

    def has_ended(self, member: int) -> bool:
        return member in self.ended or member in self.failures

    def episode(self, member: int) -> EpisodeId:
        return EpisodeId(f"{self.id}.{member}")

    @property
    def completed(self) -> list[tuple[EpisodeEnded, Completed]]:
        """The members with an outcome, in the order of their numbers."""
        pairs = [(self.ended[m], self.ended[m].outcome) for m in sorted(self.ended)]
        return [(item, outcome) for item, outcome in pairs if isinstance(outcome, Completed)]

    @property
    def oldest_version(self) -> int:
        """The oldest policy version that sampled a token of any member of a complete group."""
        if self._oldest_version is None:
            self._oldest_version = self._find_oldest_version()
        return self._oldest_version

    def _find_oldest_version(self) -> int:
        versions: list[int] = []
        for item in self.ended.values():
            for tokens in item.transcript.sequences:
                sampled = tokens.versions_T[tokens.mask_T == 1]
                if sampled.size:
                    versions.append(int(sampled.min()))
        return min(versions, default=self.min_version)

    @property
    def size_bytes(self) -> int:
        """What those that ended take in memory, roughly."""
        transcripts = [item.transcript for item in self.ended.values()]
        n_bytes = sum(tokens.size_bytes for t in transcripts for tokens in t.sequences)
        n_chars = sum(transcript.n_chars for transcript in transcripts)
        return n_bytes + n_chars + _OBJECTS_BYTES * len(transcripts)

    def note_use(self, item: EpisodeEnded) -> None:
        """What an attempt has cost, whatever came of it."""
        if item.is_compared:
            return  # it was told before
        self.use.sampling_gpu_s += item.transcript.times.sampling_gpu_s
        if self.purpose is not EpisodePurpose.DEMONSTRATE:
            self.use.n_sampled += item.transcript.n_sampled

    def expects(self, item: EpisodeEnded) -> bool:
        """Whether this ending is news."""
        member = item.spec.member
        return (
            member < self.n_members
            and not self.has_ended(member)
            and (item.is_compared == (member in self.comparison.unscored))
            and item.envelope.attempt == self.attempts[member]
        )

    def take(self, item: EpisodeEnded, position: Position, *, max_attempts: int) -> bool:
        """Note an expected ending; True when the member must be started again instead."""
        member = item.spec.member
        if self.first_offset is None:
            self.first_offset = position.offset
        self.task.note(item.transcript)
        self.comparison.unscored.pop(member, None)
        if isinstance(item.outcome, Completed):
            self.ended[member] = item
        elif self.fail(member, item.outcome, max_attempts=max_attempts):
            return True
        self.counted[member] = position
        return False

    def fail(self, member: int, failure: Failed, *, max_attempts: int) -> bool:
        """Note a failure; True when the member must be started again."""
        n_counted = self.attempts[member] - self.interruption.n_excused[member]
        if failure.retryable and n_counted < max_attempts:
            self.attempts[member] += 1
            return True
        self.failures[member] = failure
        return False

    def excuse(self) -> list[int]:
        """The members that are played get another attempt that counts for nothing; these members."""
        self.comparison.withdraw()
        self.interruption.end(self.playing)
        for member in self.playing:
            self.attempts[member] += 1
        return self.playing


def timed_out(episode_s: float) -> Failed:
    return Failed(
        kind=FailureKind.DEADLINE,
        reason=f"the episode had not ended {episode_s:g} s after its start (limits.episode_s)",
    )
