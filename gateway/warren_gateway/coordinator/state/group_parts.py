"""The parts of a group in flight, each written by one folder: its task, its comparison, its interruption, its provenance, its use."""

from collections import Counter
from dataclasses import dataclass, field
from typing import NamedTuple

from warren_gateway.position import Position
from warren_schemas.episode import EpisodeEnded, Failed, FailureKind
from warren_schemas.ids import MessageId
from warren_schemas.transcript import Transcript


class Reading(NamedTuple):
    """One of the times that a replay goes through a recording."""

    epoch: int = 0
    recording: int = 0
    """Its number among those that are replayed."""


FIRST_READING = Reading()


@dataclass(slots=True)
class PlayedTask:
    """The task that all members play: where it stands in the run's plan, and what its environment says of it."""

    index: int
    level: int | None = None
    """Where the run has a curriculum of levels."""
    number: int | None = None
    """Among its split's data; None where that is not known, or the environment makes its own."""
    id: str | None = None
    category: str | None = None

    def note(self, transcript: Transcript) -> None:
        """What a member says of it; one that failed before it began doesn't know."""
        if self.number is None:
            self.number = transcript.task_number
        if self.id is None:
            self.id = transcript.task_id
        if self.category is None:
            self.category = transcript.category


@dataclass(slots=True)
class Comparison:
    """What the members are worth as a group (`rollouts.group_rewards`); only what was told is in the store."""

    unscored: dict[int, EpisodeEnded] = field(default_factory=dict[int, EpisodeEnded])
    """Members that ended well and are in flight until they are compared with the others."""
    told: dict[MessageId, dict[int, tuple[EpisodeEnded, Position]]] = field(
        default_factory=dict[MessageId, dict[int, tuple[EpisodeEnded, Position]]]
    )
    """By the answer that gave their rewards, endings of these members that were read."""
    n_requests: int = 0
    is_asked: bool = False
    is_telling: bool = False
    """What they are worth is on its way to the run's stream."""

    @property
    def is_awaited(self) -> bool:
        return bool(self.unscored) and not self.is_telling

    def withdraw(self) -> None:
        """What was asked, and not answered, counts for nothing."""
        self.n_requests -= self.is_asked
        self.is_asked = False


@dataclass(slots=True)
class Interruption:
    """Time of an attempt during which nobody could play it, or nobody drove the run: its end by the deadline is excused."""

    was_interrupted: bool = False
    is_postponed: bool = False
    """Its deadline passed while nobody could play it: it starts anew once somebody can."""
    away_since_s: float | None = None
    """Since when nobody can play it."""
    n_excused: Counter[int] = field(default_factory=Counter[int])
    """Attempts that count for nothing, by member. Not stored: after a takeover they count, which costs at most as many
    attempts."""

    @property
    def is_excused(self) -> bool:
        """Whether the attempts under way count for nothing once they are late."""
        return self.is_postponed or self.was_interrupted

    def end(self, members: list[int]) -> None:
        """These start anew, and that counts for nothing."""
        self.is_postponed = self.was_interrupted = False
        self.away_since_s = None
        self.n_excused.update(members)

    def excuses(self, failure: Failed) -> bool:
        """Whether this says nothing but that nobody was there in time."""
        is_late = self.was_interrupted and failure.kind is FailureKind.DEADLINE
        return self.is_postponed or is_late


@dataclass(slots=True)
class Provenance:
    """What a recording says of a group that was read from it (`replaying`); empty of the run's own."""

    reading: Reading = FIRST_READING
    """In which it was read."""
    fates: set[str] = field(default_factory=set[str])
    """What became of those that ended, in the run that recorded them."""
    lost: dict[int, EpisodeEnded] = field(default_factory=dict[int, EpisodeEnded])
    """Endings of the members that failed."""
    task_key: str | None = None
    """Of one that is evaluated, which task it is in every evaluation (`evaluations.task_keys`)."""


@dataclass(slots=True)
class GroupUse:
    """What all attempts have cost whose endings were read, whatever came of them."""

    sampling_gpu_s: float = 0.0
    n_sampled: int = 0
    """Tokens."""
