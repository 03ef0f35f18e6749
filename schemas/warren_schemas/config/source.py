"""Where a run's trajectories come from, and which of the recorded ones count."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from warren_schemas.config.numbers import (
    DatasetReference,
    Name,
    NonNegativeFloat,
    NonNegativeInt,
    PositiveInt,
    SplitName,
)
from warren_schemas.text.written import Config

MOST_SHUFFLED = 10_000
"""Groups that a gateway holds for one replay."""
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


_OF_RUNS = ("also_runs", "from_offset", "from_s", "from_archive")


class RecordedSource(Config):
    """A replay of another run's recorded trajectories: the same groups, in the same order unless they are shuffled."""

    kind: Literal["recorded"] = "recorded"
    run: Name | None = None
    """Id of the run that recorded them; it may still be running. Left out where a `dataset` is given."""
    dataset: DatasetReference | None = None
    """A data set of trajectories that is replayed in place of runs: files that were exported from runs, and uploaded."""
    split: SplitName = "train"
    """Which of its splits."""
    from_archive: bool = False
    """Read what `retention.archive` of the runs has kept, not their streams. For runs that have ended."""
    from_offset: NonNegativeInt | None = None
    """Start at this offset of the recording; null starts at its beginning."""
    from_s: NonNegativeFloat | None = None
    """Start with what was recorded at this Unix time; null is off."""
    also_runs: tuple[Name, ...] = ()
    """Ids of runs whose recordings come after it, in this order."""
    where: RecordingFilter = Field(default_factory=RecordingFilter)
    """Which recorded groups count, each as a whole."""
    epochs: PositiveInt = 1
    """Number of epochs; `limits.steps` may end it before. More than one only for recordings of ended runs."""
    shuffle_window: Annotated[int, Field(ge=2, le=MOST_SHUFFLED)] | None = None
    """So many groups are held, or as many as have 256 MiB, and the next one is drawn from them by `seed`; null keeps
    the order of the recording. For runs that have ended."""

    rewards: Literal["recorded", "scored"] = "recorded"
    """Which rewards count: `recorded`, those that stand there; `scored`, those that the environments of this config
    give to what was said, on env workers. Of runs' streams only."""

    @model_validator(mode="after")
    def _can_be_scored(self) -> Self:
        if self.rewards == "scored" and (self.from_archive or self.dataset is not None):
            files = "an archive" if self.from_archive else "a data set"
            raise ValueError(
                f"rewards: {files} doesn't hold what tells whether an environment still shows the same; score from the"
                " run's stream, or change the rewards in the file"
            )
        return self

    @model_validator(mode="after")
    def _one_origin(self) -> Self:
        if (self.run is None) == (self.dataset is None):
            raise ValueError("give either run, who recorded it, or dataset, which was uploaded")
        if self.dataset is None and self.split != "train":
            raise ValueError("split is of a dataset, and has no effect on runs; leave it out")
        given = [key for key in _OF_RUNS if getattr(self, key) not in (None, (), False)]
        if self.dataset is not None and given:
            raise ValueError(
                f"{' and '.join(given)}: of runs, and have no effect on a dataset; leave out"
            )
        return self

    @model_validator(mode="after")
    def _archives_know_offsets(self) -> Self:
        if self.from_archive and self.from_s is not None:
            raise ValueError(
                "from_s: an archive does not tell when something was recorded; give from_offset"
            )
        return self

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

    @property
    def needs_the_end(self) -> str | None:
        """The key for which the recordings must be whole before it begins, if there is one."""
        keys = {
            "source.epochs": self.epochs > 1,
            "source.shuffle_window": self.shuffle_window is not None,
            "source.from_archive": self.from_archive,
        }
        return next((key for key, is_used in keys.items() if is_used), None)

    @property
    def is_scored(self) -> bool:
        """Whether env workers are needed for the rewards."""
        return self.rewards == "scored"

    @property
    def runs(self) -> tuple[str, ...]:
        """In the order in which they are replayed; none of a data set."""
        return () if self.run is None else (self.run, *self.also_runs)

    @property
    def named(self) -> str:
        """What is replayed first."""
        return self.run or self.dataset or ""


class ClientSource(Config):
    """No trajectories: a client's own loop trains the model by the training primitives. Such a model is created by the
    client, and can't be submitted as a run."""

    kind: Literal["client"] = "client"


Source = Annotated[LiveSource | RecordedSource | ClientSource, Field(discriminator="kind")]
