"""What the decision is made from: rows of the store and what workers announce."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from warren_schemas.ids import ModelId, RunId, WorkerId


@dataclass(frozen=True, slots=True)
class WaitingJob:
    """A job that is queued."""

    model: ModelId
    run: RunId
    owner: str
    base_model: str
    is_full: bool
    n_gpus: int
    memory_bytes: int | None
    """An estimate; None is taken to fit."""
    priority: int
    """Higher first."""
    queued_s: float
    number: int
    """Order of submission; unique."""
    is_interrupted: bool
    """It had a trainer and lost it."""
    blocked_by: str | None
    """Why it could not move if it had a trainer, as a sentence."""

    @property
    def is_whole(self) -> bool:
        """Whether it shares its worker with nobody."""
        return self.is_full or self.n_gpus > 1


@dataclass(frozen=True, slots=True)
class HeldJob:
    """A job that was admitted and is not over."""

    model: ModelId
    run: RunId
    owner: str
    base_model: str
    is_full: bool
    n_gpus: int
    worker: WorkerId | None
    """None: nobody has taken it yet."""
    since_s: float
    memory_bytes: int | None = None

    @property
    def is_whole(self) -> bool:
        return self.is_full or self.n_gpus > 1


@dataclass(frozen=True, slots=True)
class TrainerState:
    """What a live trainer announces."""

    worker: WorkerId
    base_models: frozenset[str]
    may_load: frozenset[str]
    """Base models that it loads in the place of its own when it is idle and told to, and patterns of names."""
    n_gpus: int
    max_models: int
    held: tuple[ModelId, ...]
    is_full_held: bool
    is_draining: bool
    free_memory_bytes: int | None
    loading: frozenset[str] = frozenset()
    """What it will train once it has loaded it; it takes nothing before."""
    cannot_load: Mapping[str, str] = field(default_factory=dict[str, str])
    """Of what it may load, with reasons."""
    is_missed: bool = False
    """It samples for others, so it can't load anything else now."""
    reserved_for: ModelId | None = None
    """Whom the last decision reserved it for."""


@dataclass(frozen=True, slots=True)
class OwnerShare:
    owner: str
    weight: float = 1.0
    used_gpu_s: float = 0.0
    """Decayed."""
    most_held: int | None = None
    """Quota of jobs that hold, or were admitted to, a trainer."""
