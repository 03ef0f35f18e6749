"""Where a run's trajectories come from, and which of the recorded ones count."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from warren_schemas.config.numbers import Name, NonNegativeFloat, NonNegativeInt
from warren_schemas.text.written import Config

RecordedFate = Literal["trained", "evaluated", "stale", "failed", "abandoned"]


@dataclass(frozen=True, slots=True)
class RecordedFacts:
    """What a filter asks of an episode, or of a group of them as one."""

    reward: float | None
    """None where it failed."""
    environment: str
    category: str | None
    versions: tuple[int, int]
    """The oldest and the newest policy version that sampled a token of it."""
    fates: frozenset[str]
    """What became of it; empty where that was never decided."""
    ended_s: float


class RecordingFilter(Config):
    """All that is given must hold."""

    min_reward: float | None = None
    """Least reward; of a group the mean of its episodes. Null is off."""
    max_reward: float | None = None
    """Highest reward; of a group the mean of its episodes. Null is off."""
    environments: tuple[Name, ...] = ()
    """Names of environments; empty takes all."""
    categories: tuple[Name, ...] = ()
    """Categories of tasks, as their environments name them; empty takes all."""
    min_version: NonNegativeInt | None = None
    """Oldest policy version that may have sampled a token of it. Null is off."""
    max_version: NonNegativeInt | None = None
    """Newest policy version that may have sampled a token of it. Null is off."""
    fates: tuple[RecordedFate, ...] = ()
    """What became of it in its run; empty takes all."""
    until_s: NonNegativeFloat | None = None
    """It ended before this Unix time. Null is off."""

    @model_validator(mode="after")
    def _is_not_empty(self) -> Self:
        for low, high in (("min_reward", "max_reward"), ("min_version", "max_version")):
            least, most = getattr(self, low), getattr(self, high)
            if least is not None and most is not None and least > most:
                raise ValueError(f"{low} is above {high}: nothing would be left")
        return self

    @property
    def is_off(self) -> bool:
        """Whether everything counts."""
        return self == RecordingFilter()

    def admits(self, facts: RecordedFacts) -> bool:
        oldest, newest = facts.versions
        return (
            _is_within(facts.reward, self.min_reward, self.max_reward)
            and _is_among(facts.environment, self.environments)
            and _is_among(facts.category, self.categories)
            and (self.min_version is None or oldest >= self.min_version)
            and (self.max_version is None or newest <= self.max_version)
            and (not self.fates or (bool(facts.fates) and facts.fates <= set(self.fates)))
            and (self.until_s is None or facts.ended_s < self.until_s)
        )


def _is_within(value: float | None, least: float | None, most: float | None) -> bool:
    if value is None:
        return least is None and most is None
    return (least is None or value >= least) and (most is None or value <= most)


def _is_among(name: str | None, names: Sequence[str]) -> bool:
    return not names or name in names


class LiveSource(Config):
    """The run's own policy plays episodes while it trains."""

    kind: Literal["live"] = "live"


class RecordedSource(Config):
    """A replay of another run's recorded trajectories, with the same groups in the same order."""

    kind: Literal["recorded"] = "recorded"
    run: Name
    """Id of the run that recorded them; it may still be running."""
    from_offset: NonNegativeInt | None = None
    """Start at this offset of the recording; null starts at its beginning."""
    from_s: NonNegativeFloat | None = None
    """Start with what was recorded at this Unix time; null is off."""
    also_runs: tuple[Name, ...] = ()
    """Ids of runs whose recordings come after it, in this order."""
    where: RecordingFilter = Field(default_factory=RecordingFilter)
    """Which recorded groups count, each as a whole."""

    @model_validator(mode="after")
    def _one_beginning(self) -> Self:
        if self.from_offset is not None and self.from_s is not None:
            raise ValueError("give either from_offset or from_s, not both")
        return self

    @model_validator(mode="after")
    def _has_each_once(self) -> Self:
        if len(set(self.runs)) < len(self.runs):
            raise ValueError("also_runs names a run twice; each recording is replayed once")
        return self

    @model_validator(mode="after")
    def _takes_what_is_replayed(self) -> Self:
        if none := sorted({"evaluated", "failed"}.intersection(self.where.fates)):
            raise ValueError(f"where.fates: episodes that are {' or '.join(none)} are not replayed")
        return self

    @property
    def runs(self) -> tuple[str, ...]:
        """In the order in which they are replayed."""
        return (self.run, *self.also_runs)


class ClientSource(Config):
    """None: a client's own loop drives the model through the training primitives. Such a model is created,
    not submitted as a run."""

    kind: Literal["client"] = "client"


Source = Annotated[LiveSource | RecordedSource | ClientSource, Field(discriminator="kind")]
