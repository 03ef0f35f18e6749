"""Groups of episodes in flight: who has ended, who failed, who must be started again.

Invariant: each member ends at most once. An ending counts only if it belongs to the member's
current attempt, so a duplicate, or a late ending of an attempt that was given up, changes nothing.
The one that counted is known by its position in the run's stream, which tells it from others of the
same attempt, be they the very same message stored twice: what became of the member is said of it alone.
Attempts during which no worker was there, or no coordinator, and that then ran out of time are excused:
they get a number, but count for nothing.
"""

from collections import Counter
from dataclasses import dataclass, field
from typing import NamedTuple

from warren_gateway.position import Position
from warren_schemas.episode import Completed, EpisodeEnded, EpisodePurpose, Failed, FailureKind
from warren_schemas.ids import EpisodeId, GroupId, MessageId

_OBJECTS_BYTES = 8 * 1024
"""An episode without its tokens and texts."""


class Reading(NamedTuple):
    """One of the times that a replay goes through a recording."""

    epoch: int = 0
    recording: int = 0
    """Its number among those that are replayed."""


FIRST_READING = Reading()


@dataclass(slots=True)
class Group:
    id: GroupId
    number: int
    purpose: EpisodePurpose
    environment: int
    task_index: int
    min_version: int
    deadline_s: float
    attempts: list[int]
    ended: dict[int, EpisodeEnded] = field(default_factory=dict[int, EpisodeEnded])
    failures: dict[int, Failed] = field(default_factory=dict[int, Failed])
    counted: dict[int, Position] = field(default_factory=dict[int, Position])
    """Where the ending of each member stands that counts; none for a member that never ended, or was not compared."""
    excused: Counter[int] = field(default_factory=Counter[int])
    """By member. Not stored: after a takeover they count, which costs at most as many attempts."""
    was_interrupted: bool = False
    """For a part of this attempt nobody could play it, or nobody drove the run."""
    is_postponed: bool = False
    """Its deadline passed while nobody could play it: it starts anew once somebody can."""
    away_since_s: float | None = None
    """Since when nobody can play it."""
    level: int | None = None
    """Of its task, where the run has a curriculum of levels."""
    evaluation: int | None = None
    """Number of the run's evaluation that it is part of."""
    task_number: int | None = None
    """Which task of its split's data it plays; None where that is not known, or the environment makes its own."""
    task_id: str | None = None
    """What the environment calls its task."""
    category: str | None = None
    """Of its task, as the environment says."""
    recorded_fates: set[str] = field(default_factory=set[str])
    """What became of those that ended, in the run that recorded them; empty of an own group."""
    reading: Reading = FIRST_READING
    """In which another run's group was read."""
    scores: "Group | None" = None
    """The recorded group whose episodes are scored anew, or evaluated. Nothing of the group that does it is stored before
    its evaluation has counted it."""
    lost: dict[int, EpisodeEnded] = field(default_factory=dict[int, EpisodeEnded])
    """Of a recorded group, the endings of the members that failed."""
    task: str | None = None
    """Of a recorded group that is evaluated, which task it is in every evaluation (`evaluations.task_keys`)."""
    unscored: dict[int, EpisodeEnded] = field(default_factory=dict[int, EpisodeEnded])
    """Members that ended well and are in flight until they are compared with the others (`group_rewards`)."""
    comparisons: dict[MessageId, dict[int, tuple[EpisodeEnded, Position]]] = field(
        default_factory=dict[MessageId, dict[int, tuple[EpisodeEnded, Position]]]
    )
    """By the answer that gave their rewards, endings of these members that were read."""
    n_scorings: int = 0
    """How often that was asked for. Not stored, like the two that follow."""
    is_asked: bool = False
    is_told: bool = False
    """What they are worth is on its way to the run's stream."""
    first_offset: int | None = None
    """Offset of the first stream message that holds one of its endings."""
    sampling_gpu_s: float = 0.0
    """Of all attempts whose endings were read."""
    n_sampled: int = 0
    """Tokens, of these."""
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
        return [m for m in self.missing if m not in self.unscored]

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
        self.sampling_gpu_s += item.transcript.times.sampling_gpu_s
        if self.purpose is not EpisodePurpose.DEMONSTRATE:
            self.n_sampled += item.transcript.n_sampled

    def expects(self, item: EpisodeEnded) -> bool:
        """Whether this ending is news."""
        member = item.spec.member
        return (
            member < self.n_members
            and not self.has_ended(member)
            and (item.is_compared == (member in self.unscored))
            and item.envelope.attempt == self.attempts[member]
        )

    def take(self, item: EpisodeEnded, position: Position, *, max_attempts: int) -> bool:
        """Note an expected ending; True when the member must be started again instead."""
        member = item.spec.member
        if self.first_offset is None:
            self.first_offset = position.offset
        self._note_task(item)
        self.unscored.pop(member, None)
        if isinstance(item.outcome, Completed):
            self.ended[member] = item
        elif self.fail(member, item.outcome, max_attempts=max_attempts):
            return True
        self.counted[member] = position
        return False

    def _note_task(self, item: EpisodeEnded) -> None:
        """All members play the same one; what failed before it began doesn't know it."""
        if self.task_number is None:
            self.task_number = item.transcript.task_number
        if self.task_id is None:
            self.task_id = item.transcript.task_id
        if self.category is None:
            self.category = item.transcript.category

    def fail(self, member: int, failure: Failed, *, max_attempts: int) -> bool:
        """Note a failure; True when the member must be started again."""
        if failure.retryable and self.attempts[member] - self.excused[member] < max_attempts:
            self.attempts[member] += 1
            return True
        self.failures[member] = failure
        return False

    def excuse(self) -> list[int]:
        """The members that are played get another attempt that counts for nothing; these members."""
        self.n_scorings -= self.is_asked
        self.is_postponed = self.was_interrupted = self.is_asked = False
        self.away_since_s = None
        for member in self.playing:
            self.attempts[member] += 1
            self.excused[member] += 1
        return self.playing

    def excuses(self, failure: Failed) -> bool:
        """Whether this says nothing but that nobody was there in time."""
        is_late = self.was_interrupted and failure.kind is FailureKind.DEADLINE
        return self.is_postponed or is_late


def timed_out(episode_s: float) -> Failed:
    return Failed(
        kind=FailureKind.DEADLINE,
        reason=f"the episode had not ended {episode_s:g} s after its start (limits.episode_s)",
    )
