"""The state of a model that its client drives: what was asked for, and how far that is. Written by `clients` alone.

Fields are stored with every change, but for those excluded, which stand in the requests' rows.
"""

from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, InstanceOf

from warren_gateway.coordinator.state.told_metrics import ToldMetrics
from warren_schemas.training import OpBody

UNDELIVERED_S = 24 * 3600.0
"""So long is an outcome kept that its client has not fetched."""


class Asked(BaseModel):
    """What a request says that is not part of its op."""

    model_config = ConfigDict(extra="forbid")

    name: str | None = None
    """Of a `SaveState`: the checkpoint's; of a `PublishPolicy`: the snapshot's; of a `LoadState`: that of a
    checkpoint of the same model."""
    ttl_s: float | None = None
    """How long that is kept; None: until it is deleted."""
    overwrite: bool = False
    """The checkpoint may take the place of one of the same name."""
    metadata: dict[str, Any] | None = None
    """The client's own, kept with the checkpoint or the snapshot."""
    is_beginning: bool = False
    """The model begins with it: without it there is nothing to go on with."""
    source: str | None = None
    """Of a `LoadState`: the URL of another model's checkpoint, which stays until it is loaded."""
    opens_sampler: bool = False
    """Of a `PublishPolicy`: whoever fetches its outcome opens a sampler that stays at this version."""
    begins_window: bool = False
    """It stands for an optimizer step that can't be taken, and the metrics of its window are in no step."""
    lengths: list[int] = Field(default_factory=list[int])
    """Of the sequences of a batch, for whoever takes its logprobs apart."""
    extra: dict[str, Any] | None = None
    """Whatever the face that took the request wants to know of it later."""


@dataclass(frozen=True, slots=True)
class Arrived:
    """A request that is not in the op log."""

    id: str
    number: int
    sequence: int | None
    arrived_s: float
    body: tuple[Asked, OpBody] | None = None
    """None while it is not read, for its turn has not come."""


class Taken(BaseModel):
    """A request whose op is in the log and not answered."""

    id: str
    kind: str
    asked: InstanceOf[Asked]


class Window(BaseModel):
    """What trainers told of a gradient that no optimizer step has taken yet."""

    model_config = ConfigDict(extra="forbid")

    told: ToldMetrics = Field(default_factory=ToldMetrics)
    n_sequences: int = 0
    training_s: float = 0.0
    """What it took, by the trainers' own clocks."""


class ClientState(BaseModel):
    model_config = ConfigDict(extra="forbid")

    next_sequence: int = 1
    version: int = 0
    """Of the model, as the newest answer told."""
    live_version: int | None = None
    """The newest one to which samplers move on."""
    unopened: dict[int, float] = Field(default_factory=dict[int, float])
    """Versions for samplers that nobody has opened yet, each with the time until which that can be done."""
    unsaved_s: float = 0.0
    """What trainers took for the ops after the newest checkpoint that is asked for."""
    save_s: float = 0.0
    """What the newest checkpoint took."""
    is_save_due: bool = False
    """Whatever it costs: what a failover needs may be deleted by others."""
    window: Window = Field(default_factory=Window)
    noted_op: int = 0
    """The newest op that the metrics know of; those that are applied again after a failover are not new to them."""

    arrived: list[InstanceOf[Arrived]] = Field(default_factory=list[Arrived], exclude=True)
    """In the order of their turns, as far as known."""
    taken: dict[int, Taken] = Field(default_factory=dict[int, Taken], exclude=True)
    """By the number of the op."""
    until_s: float | None = Field(default=None, exclude=True)
    """On the store's clock: until when the client is taken to be there; None for ever."""
    is_gone: bool = Field(default=False, exclude=True)
    """It was silent for longer, when it was looked at last."""
    looked_s: float = Field(default=0.0, exclude=True)
    """When that was."""
    attended_since_s: float = Field(default=0.0, exclude=True)
    """Since when clients could have been heard: neither we nor the store were away since then."""
    stepped_s: float = Field(default=0.0, exclude=True)
    """When the newest optimizer step was answered; 0 where this coordinator has seen none."""
    pinned: set[int] = Field(default_factory=set[int], exclude=True)
    """Versions of the snapshots that have a name."""
    sampled: set[int] = Field(default_factory=set[int], exclude=True)
    """Other versions that samplers stay at."""
