"""A recording: groups of episodes put together again from the stream of the run that played them, or from files.

Pure: a function of what stands there and where, and of what the run made of it (`counted`). Whoever reads the same from the same
place gets the same groups in the same order, whatever was read twice, and whoever was restarted in
between.

Invariants
- A group comes out once. Its id is then in `closed`, which the store holds, so that neither a
  duplicate nor a coordinator that starts over can bring it back.
- A member counts with the ending that the run counted. Where the run ended before it decided, that is its
  first completed attempt, or it failed once its attempts are used up. A group comes out with its last
  member, so groups come in the order in which they were completed.
- A group of which a member never ended (its loss left no trace in the stream) is given up when
  `most_open` others have begun after it; so few are held. Of a data set, the oldest are given up also where all that are open
  take more than `MOST_OPEN_BYTES`.
- What the run wrote after its end, at `end_offset` or behind, does not count.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field

from warren_broker.port import FromTime, StreamStart
from warren_broker.topology import Stream
from warren_gateway.coordinator.replaying.files import Archived, Uploaded
from warren_gateway.coordinator.rollouts import group_rewards
from warren_gateway.coordinator.rollouts.trainable import as_trainable
from warren_gateway.coordinator.state.group_parts import PlayedTask
from warren_gateway.coordinator.state.groups import Group
from warren_gateway.coordinator.state.recorded import Ending, Message
from warren_gateway.evaluations.task_keys import recorded_task_key
from warren_gateway.position import Position
from warren_schemas.config import Quorum, TrainConfig
from warren_schemas.episode import EpisodeEnded, EpisodePurpose
from warren_schemas.ids import GroupId, RunId

_LEARNED = (EpisodePurpose.TRAIN, EpisodePurpose.DEMONSTRATE)
_EVALUATED = (EpisodePurpose.TRAIN, EpisodePurpose.EVALUATE)

SLACK = 64
"""Groups that may be open beyond those that the run can have had in flight."""


@dataclass(frozen=True, slots=True)
class Terms:
    """What the run's config says about its recording."""

    group_sizes: Sequence[int]
    """By number of the environment: one name may be listed twice, with different sizes."""
    samples: int
    """Of each task that it evaluated."""
    datasets: Sequence[str | None]
    """By number of the environment, what its tasks are rows of."""
    attempts: Sequence[Mapping[EpisodePurpose, int]]
    """How often an episode is tried, by environment and purpose."""
    most_open: int
    most_evaluated: int
    """Groups of evaluations that may be open beside them."""

    def has(self, environment: int) -> bool:
        return environment < len(self.group_sizes)

    @classmethod
    def of(cls, config: TrainConfig) -> "Terms":
        algorithm = config.algorithm
        in_flight = (algorithm.max_staleness + 1) * algorithm.groups_per_step
        samples = 1 if config.evaluation is None else config.evaluation.samples
        return cls(
            group_sizes=[e.group_size or algorithm.group_size for e in config.environments],
            samples=samples,
            datasets=[e.dataset for e in config.environments],
            attempts=[
                {p: e.episode_attempts or _attempts(config, p) for p in EpisodePurpose}
                for e in config.environments
            ],
            most_open=4 * in_flight + SLACK,
            most_evaluated=config.limits.in_flight if samples > 1 else 0,
        )


MOST_OPEN_OF_ROWS = 1024
"""Groups of a data set that may be open: nobody tells how many its runs had in flight."""

MOST_OPEN_BYTES = 512 * 2**20
"""What these may take in memory."""


@dataclass(slots=True)
class Recording:
    run: RunId | None
    """Who recorded it; None of a data set, which may be of several runs."""
    origin: Stream | Archived | Uploaded
    terms: Terms | None
    """None where each episode tells the size of its group."""
    start: Position | FromTime
    is_evaluated: bool = False
    """What was trained on and what was evaluated is read, to be evaluated; else what can be learned."""
    next_offset: int | None = None
    """The message to be read next; None before the first one, when it starts at a time."""
    end_offset: int | None = None
    """Where the recording ends; None while the run still goes on."""
    closed: set[GroupId] = field(default_factory=set[GroupId])
    """Groups that were consumed or given up."""
    open: dict[GroupId, Group] = field(default_factory=dict[GroupId, Group])
    """Groups that lack a member, in the order in which they began."""
    open_bytes: Counter[GroupId] = field(default_factory=Counter[GroupId])
    """What each of these takes in memory, roughly, where it is of a data set."""
    complete: set[GroupId] = field(default_factory=set[GroupId])
    """Groups that came out and were not consumed yet."""
    trouble: str | None = None
    """Why it can't be read, since it was last seen that it can."""
    wrong: str | None = None
    """Why no replay of it can go on."""

    def begin(self, closed: AbstractSet[GroupId]) -> None:
        """Read it from where it is to be replayed on; these groups need nothing more."""
        self.next_offset = None
        self.closed = set(closed)
        self.open.clear()
        self.open_bytes.clear()
        self.complete.clear()
        self.trouble = None

    @property
    def recorder(self) -> RunId:
        """The one run that recorded it."""
        assert self.run is not None
        return self.run

    @property
    def name(self) -> str:
        return self.origin.reference if isinstance(self.origin, Uploaded) else self.recorder

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

    def take(self, message: Message) -> tuple[list[Group], list[Group]]:
        """The groups that a message completes, and those that are given up."""
        self.trouble = None
        self.next_offset = max(message.offset + 1, self.next_offset or 0)
        completed: list[Group] = []
        if self.end_offset is not None and message.offset >= self.end_offset:
            return completed, []
        for ending in message.endings:
            group = self._take(ending, Position(message.offset, ending.place))
            if group is not None:
                completed.append(group)
        return completed, self._give_up()

    def give_up_all(self) -> list[Group]:
        """Those that are open, where nothing more comes."""
        return [self._give_up_one(group) for group in list(self.open.values())]

    def task_of(self, group: Group) -> str:
        """Which task a complete group plays, in every evaluation."""
        item = next(iter((*group.ended.values(), *group.provenance.lost.values())))
        of = None if self.terms is None else self.terms.datasets[item.spec.environment_number]
        return recorded_task_key(item.spec, group.task.id, group.task.number, of)

    def close(self, group: Group) -> None:
        """The group was consumed, or is of no use."""
        self.complete.discard(group.id)
        self.closed.add(group.id)

    def _take(self, ending: Ending, position: Position) -> Group | None:
        item, is_early = ending.item, isinstance(self.start, Position) and position < self.start
        is_superseded = ending.fate is None and (ending.is_decided or group_rewards.takes(item))
        group = (
            None if is_early or is_superseded or not self._is_ours(item) else self._group(ending)
        )
        if group is None or not _is_news(group, item):
            return None
        self.open[group.id] = group
        group.attempts[item.spec.member] = item.envelope.attempt
        usable = item if self.is_evaluated else as_trainable(item)
        group.take(usable, position, max_attempts=self._most_attempts(ending))
        if self.is_evaluated and item.spec.member in group.failures:
            group.provenance.lost[item.spec.member] = item
        self.open_bytes[group.id] += ending.size_bytes
        if ending.fate is not None and item.spec.member in group.ended:
            group.provenance.fates.add(ending.fate)
        if not group.is_complete:
            return None
        self._remove(group)
        self.complete.add(group.id)
        return group

    def _remove(self, group: Group) -> None:
        del self.open[group.id]
        del self.open_bytes[group.id]

    def _is_ours(self, item: EpisodeEnded) -> bool:
        if self.terms is None:
            return True
        return item.envelope.run == self.run and self.terms.has(item.spec.environment_number)

    def _most_attempts(self, ending: Ending) -> int:
        """A failure that counted is the last."""
        if ending.is_decided or self.terms is None:
            return 0
        spec = ending.item.spec
        return self.terms.attempts[spec.environment_number][spec.purpose]

    def _group(self, ending: Ending) -> Group | None:
        """The open group of this episode, or a new one, which is open once it has taken an ending."""
        spec = ending.item.spec
        is_closed = spec.group in self.closed or spec.group in self.complete
        if spec.purpose not in (_EVALUATED if self.is_evaluated else _LEARNED) or is_closed:
            return None
        return self.open.get(spec.group) or _begin(ending.item, self._n_members(ending))

    def _n_members(self, ending: Ending) -> int:
        spec = ending.item.spec
        if spec.purpose is EpisodePurpose.DEMONSTRATE:
            return 1
        if self.terms is None:
            return ending.group_size or 1
        if spec.purpose is EpisodePurpose.EVALUATE:
            return self.terms.samples
        return self.terms.group_sizes[spec.environment_number]

    def _give_up(self) -> list[Group]:
        most = MOST_OPEN_OF_ROWS if self.terms is None else self.terms.most_open
        if self.is_evaluated and self.terms is not None:
            most += self.terms.most_evaluated
        n_bytes = self.open_bytes.total()
        given_up: list[Group] = []
        while len(self.open) > most or n_bytes > MOST_OPEN_BYTES:
            oldest = next(iter(self.open.values()))
            n_bytes -= self.open_bytes[oldest.id]
            given_up.append(self._give_up_one(oldest))
        return given_up

    def _give_up_one(self, group: Group) -> Group:
        self._remove(group)
        self.closed.add(group.id)
        return group


def _attempts(config: TrainConfig, purpose: EpisodePurpose) -> int:
    """What a run tries unless an environment says otherwise; see `failed_members`."""
    is_quorum = isinstance(config.algorithm.groups, Quorum)
    once = is_quorum and purpose is EpisodePurpose.TRAIN
    return 1 if once else config.limits.episode_attempts


def _begin(item: EpisodeEnded, n_members: int) -> Group:
    return Group(
        id=item.spec.group,
        number=0,
        purpose=item.spec.purpose,
        environment=item.spec.environment_number,
        task=PlayedTask(item.spec.task.index, item.spec.task.level),
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
