"""Bodies about the deployment: workers, queues, dead letters, health."""

from pydantic import Field, JsonValue

from warren_schemas.base import Frozen
from warren_schemas.config import NonNegativeInt, PositiveInt
from warren_schemas.ids import WorkerId

__all__ = ["DeadLetterDetails", "DeadLetterView", "Health", "QueueView", "WorkerView"]


class WorkerView(Frozen):
    id: WorkerId
    role: str
    offers: tuple[str, ...]
    capacity: NonNegativeInt
    in_flight: NonNegativeInt
    n_done: NonNegativeInt
    models: tuple[str, ...]
    host: str
    pid: NonNegativeInt
    last_seen_s: float
    loading: tuple[str, ...] = ()
    """Base models that it will offer once it has loaded them."""
    may_load: tuple[str, ...] = ()
    """Base models that it loads in the place of its own when it is idle and a run waits for one, or patterns of names."""
    cannot_load: dict[str, str] = Field(default_factory=dict)
    """Of those the ones that it has tried, or that don't fit into its memory, with reasons."""
    n_devices: PositiveInt = 1
    """Over which a trainer spreads each model."""
    is_draining: bool = False
    """It takes nothing new; once it is busy with nothing, it can be stopped without any run noticing."""


class WorkerList(Frozen):
    workers: tuple[WorkerView, ...]


class QueueView(Frozen):
    name: str
    n_ready: NonNegativeInt
    """Messages that wait for a consumer."""


class QueueList(Frozen):
    queues: tuple[QueueView, ...]


class DeadLetterView(Frozen):
    """A message that was given up."""

    id: str
    origin: str
    """The queue that it goes back to when it is republished."""
    reason: str
    first_seen_s: float
    """Unix time of its first publishing."""
    n_failures: NonNegativeInt
    """How often it was given up: more than once after a republishing that did not help."""
    kind: str | None
    """Of its items; null where it can't be read."""
    n_items: NonNegativeInt
    runs: tuple[str, ...]
    size_bytes: NonNegativeInt


class DeadLetterDetails(Frozen):
    """A dead letter with what it says."""

    letter: DeadLetterView
    items: tuple[JsonValue, ...]
    """Its items as they are; token arrays are shown as their place in the message."""


class DeadLetterList(Frozen):
    letters: tuple[DeadLetterView, ...]
    """Oldest first."""


class Health(Frozen):
    status: str
    version: str
    broker: str
    store: str
