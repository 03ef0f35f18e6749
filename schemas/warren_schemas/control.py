"""Events that everybody may hear: who is alive, which policy is newest, what was cancelled.

Events are fanned out and may be missed; nothing depends on one for correctness. A worker that
missed a `PolicyPublished` finds the policy in the next `Generate`; a gateway that missed a
heartbeat hears the next.
"""

from enum import StrEnum
from typing import Annotated, ClassVar

from pydantic import Field

from warren_schemas.base import Frozen, QueuePart
from warren_schemas.config import NonNegativeInt, PositiveFloat
from warren_schemas.envelope import Item
from warren_schemas.ids import ModelId, RunId, WorkerId
from warren_schemas.text.patterns import names_one
from warren_schemas.training import Policy


class WorkerRole(StrEnum):
    SAMPLER = "sampler"
    TRAINER = "trainer"
    ENVIRONMENT = "environment"


class HeldModel(Frozen):
    model: ModelId
    epoch: Annotated[int, Field(ge=1)]


class CannotLoad(Frozen):
    """Why a GPU worker does not load a base model that it otherwise might."""

    base_model: QueuePart
    reason: str
    """A clause that goes on from "the worker can't load it: "."""


class EnvironmentShape(Frozen):
    """What can be said of an environment's config before an episode begins."""

    name: str
    keys: tuple[str, ...] | None = None
    """Parameters of its constructor; None where they are not known."""
    required: tuple[str, ...] = ()
    """Those without a default."""
    splits: tuple[str, ...] = ()
    """Splits that it has unless its config brings other data; empty where any name will do."""
    has_levels: bool | None = None
    """Its tasks can be of a given level; None where it is not known."""


class Heartbeat(Item):
    """A worker is alive -> topic `workers`. Missing for 3 intervals means gone."""

    kind: ClassVar[str] = "heartbeat"
    schema_version: ClassVar[int] = 1
    worker: WorkerId
    role: WorkerRole
    offers: tuple[QueuePart, ...]
    """Base models of a sampler or trainer, environments of an env worker."""
    loading: tuple[QueuePart, ...] = ()
    """Base models that a sampler or trainer will offer once it has loaded them."""
    may_load: tuple[QueuePart, ...] = ()
    """Base models that a GPU worker loads in the place of its own when it is idle and told to, or patterns of names."""
    cannot_load: tuple[CannotLoad, ...] = ()
    """Those that it has tried, or that don't fit into its memory."""
    interval_s: PositiveFloat
    capacity: NonNegativeInt
    """Most items (requests, models, episodes) held at once."""
    in_flight: NonNegativeInt
    n_done: NonNegativeInt = 0
    """Items finished since the worker started."""
    models: tuple[HeldModel, ...] = ()
    """Leases that a trainer holds."""
    without_disk_space: tuple[ModelId, ...] = ()
    """Of these the models whose files don't fit where checkpoints are kept; it tries again."""
    n_devices: Annotated[int, Field(ge=1)] = 1
    """Over which a trainer spreads each model."""
    kept_for: ModelId | None = None
    """Beside this job a trainer takes none that share it with others."""
    owner: str | None = None
    """Who connected this env worker through the gateway; None for a worker of the deployment."""
    shapes: tuple[EnvironmentShape, ...] = ()
    """Of the environments that an env worker offers, as far as it knows them."""
    is_draining: bool = False
    """It was told to take nothing new, and offers nothing; what it holds it finishes or gives away."""
    drained_offers: tuple[QueuePart, ...] = ()
    """What a worker that is drained offers again once it takes work."""
    host: str = ""
    pid: NonNegativeInt = 0
    clock_ns: NonNegativeInt = 0
    """The process's monotonic clock when this was published: one that comes after a newer one is passed over."""
    is_leaving: bool = False
    """The last heartbeat of a worker that stops in good order."""

    def loads_if_told(self, base_model: str) -> bool:
        """Whether a GPU worker would load it in the place of its own."""
        is_out = any(one.base_model == base_model for one in self.cannot_load)
        return not is_out and base_model not in self.offers and names_one(self.may_load, base_model)


class HeartbeatsRequested(Item):
    """A gateway that knows no worker yet asks for heartbeats -> topic `heartbeat-requests`.

    Each worker sends its heartbeat at once. Whoever misses this one is heard at its next interval.
    """

    kind: ClassVar[str] = "heartbeats_requested"
    schema_version: ClassVar[int] = 1


class DrainWorker(Item):
    """A worker is to take nothing new, or again what comes -> topic `heartbeat-requests`.

    Gateways say so as long as its heartbeats say otherwise. It holds for the life of the worker's process.
    """

    kind: ClassVar[str] = "drain_worker"
    schema_version: ClassVar[int] = 1
    worker: WorkerId
    is_drained: bool


class PolicyPublished(Item):
    """A new policy version can be sampled -> topic `policies`."""

    kind: ClassVar[str] = "policy_published"
    schema_version: ClassVar[int] = 1
    model: ModelId
    base_model: str
    policy: Policy


class RunEnded(Item):
    """Nobody needs this run's episodes any more -> topic `runs`; drop what you hold of it."""

    kind: ClassVar[str] = "run_ended"
    schema_version: ClassVar[int] = 1
    ended_run: RunId
    model: ModelId


class RunChanged(Item):
    """Its owner wants something of a run, or another gateway's scheduler has admitted it or given it up -> topic
    `run-changes`; the gateway that drives it looks into the store.

    A gateway that missed it looks with the next renewal of its leases.
    """

    kind: ClassVar[str] = "run_changed"
    schema_version: ClassVar[int] = 1
    changed_run: RunId


class RequestsAnswered(Item):
    """Requests of a client's model have their outcomes in the store -> topic `model-answers`.

    Sent to the gateways where the client may wait for them; one that missed it looks when the wait is over.
    """

    kind: ClassVar[str] = "requests_answered"
    schema_version: ClassVar[int] = 1
    answered_model: ModelId
    requests: tuple[str, ...] | None
    """None: all of the model's."""


class EpisodeCancelled(Item):
    """Nobody needs the episode's turns of this attempt, or of older ones -> topic `cancellations`.

    The envelope names episode and attempt.
    """

    kind: ClassVar[str] = "episode_cancelled"
    schema_version: ClassVar[int] = 1
