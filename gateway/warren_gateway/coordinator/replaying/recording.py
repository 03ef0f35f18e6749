"""A recording: groups of episodes put together again from the stream of the run that played them.

Pure: a function of what stands in the stream and where, and of what the run made of it (`counted`). Whoever reads the same stream from the same
place gets the same groups in the same order, whatever was read twice, and whoever was restarted in
between.

Invariants
- A group comes out once. Its id is then in `closed`, which the store holds, so that neither a
  duplicate nor a coordinator that starts over can bring it back.
- A member counts with the ending that the run counted. Where the run ended before it decided, that is its
  first completed attempt, or it failed once its attempts are used up. A group comes out with its last
  member, so groups come in the order in which they were completed.
- A group of which a member never ended (its loss left no trace in the stream) is given up when
  `most_open` others have begun after it; so few are held.
- What the run wrote after its end, at `end_offset` or behind, does not count.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from warren_broker.port import FromTime, StreamStart
from warren_broker.topology import Stream
from warren_gateway.coordinator.replaying.counted import Counted
from warren_gateway.coordinator.rollouts.trainable import as_trainable
from warren_gateway.coordinator.state.groups import Group
from warren_gateway.position import Position
from warren_schemas.config import Quorum, TrainConfig
from warren_schemas.episode import EpisodeEnded, EpisodePurpose
from warren_schemas.ids import GroupId, RunId

SLACK = 64
"""Groups that may be open beyond those that the run can have had in flight."""


@dataclass(frozen=True, slots=True)
class Terms:
    """What the run's config says about its recording."""

    group_sizes: Sequence[int]
    """By number of the environment: one name may be listed twice, with different sizes."""
    attempts: Sequence[Mapping[EpisodePurpose, int]]
    """How often an episode is tried, by environment and purpose."""
    most_open: int

    def has(self, environment: int) -> bool:
        return environment < len(self.group_sizes)

    @classmethod
    def of(cls, config: TrainConfig) -> "Terms":
        algorithm = config.algorithm
        in_flight = (algorithm.max_staleness + 1) * algorithm.groups_per_step
        return cls(
            group_sizes=[e.group_size or algorithm.group_size for e in config.environments],
            attempts=[
                {p: e.episode_attempts or _attempts(config, p) for p in EpisodePurpose}
                for e in config.environments
            ],
            most_open=4 * in_flight + SLACK,
        )


@dataclass(slots=True)
class Recording:
    run: RunId
    """Who recorded it."""
    stream: Stream
    terms: Terms
    start: Position | FromTime
    next_offset: int | None = None
    """The message to be read next; None before the first one, when it starts at a time."""
    end_offset: int | None = None
    """Where the recording ends; None while the run still goes on."""
    closed: set[GroupId] = field(default_factory=set[GroupId])
    """Groups that were consumed or given up."""
    open: dict[GroupId, Group] = field(default_factory=dict[GroupId, Group])
    """Groups that lack a member, in the order in which they began."""
    complete: set[GroupId] = field(default_factory=set[GroupId])
    """Groups that came out and were not consumed yet."""

    @property
    def is_read(self) -> bool:
        """Whether all of it was read."""
        end, here = self.end_offset, self.read_from
        return end is not None and (end == 0 or (isinstance(here, int) and here >= end))

    @property
    def read_from(self) -> StreamStart:
        """Where a reader has to start, or to go on."""
        if self.next_offset is not None:
            return self.next_offset
        return self.start if isinstance(self.start, FromTime) else self.start.offset

    def take(
        self, items: Sequence[EpisodeEnded], offset: int, counted: Counted
    ) -> tuple[list[Group], list[Group]]:
        """The items of one message: the groups that they complete, and those that are given up."""
        self.next_offset = max(offset + 1, self.next_offset or 0)
        completed: list[Group] = []
        if self.end_offset is not None and offset >= self.end_offset:
            return completed, []
        for place, item in enumerate(items):
            group = self._take(item, Position(offset, place), counted, place)
            if group is not None:
                completed.append(group)
        return completed, self._give_up()

    def close(self, group: Group) -> None:
        """The group was consumed, or is of no use."""
        self.complete.discard(group.id)
        self.closed.add(group.id)

    def _take(
        self, item: EpisodeEnded, position: Position, counted: Counted, place: int
    ) -> Group | None:
        is_known, fate = place in counted, counted.get(place)
        is_early = isinstance(self.start, Position) and position < self.start
        is_ours = item.envelope.run == self.run and self.terms.has(item.spec.environment_number)
        group = (
            self._group(item)
            if is_ours and not is_early and not (is_known and fate is None)
            else None
        )
        if group is None or not _is_news(group, item):
            return None
        group.attempts[item.spec.member] = item.envelope.attempt
        max_attempts = self.terms.attempts[item.spec.environment_number][item.spec.purpose]
        most = 0 if is_known else max_attempts  # a failure that counted is the last
        group.take(as_trainable(item), position, max_attempts=most)
        if fate is not None and item.spec.member in group.ended:
            group.recorded_fates.add(fate)
        if not group.is_complete:
            return None
        del self.open[group.id]
        self.complete.add(group.id)
        return group

    def _group(self, item: EpisodeEnded) -> Group | None:
        """The open group of this episode, begun if it is new."""
        key, purpose = item.spec.group, item.spec.purpose
        if purpose is EpisodePurpose.EVALUATE or key in self.closed or key in self.complete:
            return None
        if key not in self.open:
            n_members = (
                self.terms.group_sizes[item.spec.environment_number]
                if purpose is EpisodePurpose.TRAIN
                else 1
            )
            self.open[key] = _begin(item, n_members)
        return self.open[key]

    def _give_up(self) -> list[Group]:
        given_up = list(self.open.values())[: max(0, len(self.open) - self.terms.most_open)]
        for group in given_up:
            del self.open[group.id]
            self.closed.add(group.id)
        return given_up


def _attempts(config: TrainConfig, purpose: EpisodePurpose) -> int:
    """What a run tries unless an environment says otherwise; see `group_policy`."""
    is_quorum = isinstance(config.algorithm.groups, Quorum)
    once = is_quorum and purpose is EpisodePurpose.TRAIN
    return 1 if once else config.limits.episode_attempts


def _begin(item: EpisodeEnded, n_members: int) -> Group:
    return Group(
        id=item.spec.group,
        number=0,
        purpose=item.spec.purpose,
        environment=item.spec.environment_number,
        task_index=item.spec.task.index,
        min_version=item.spec.policy.min_version,
        deadline_s=0.0,
        attempts=[1] * n_members,
    )


def _is_news(group: Group, item: EpisodeEnded) -> bool:
    member = item.spec.member
    return (
        member < group.n_members
        and not group.has_ended(member)
        and item.envelope.attempt >= group.attempts[member]
    )
