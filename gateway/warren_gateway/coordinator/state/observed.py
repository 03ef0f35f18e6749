"""What the coordinator has seen of the world around the run. Decisions read it and write none of it."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from warren_gateway.advice import SEPARATE_WORKERS, Advice
from warren_gateway.runs.kept_versions import KeptVersions
from warren_gateway.stop_request import StopRequest
from warren_schemas.ids import ModelId, RunId


@dataclass(frozen=True, slots=True)
class TrainedRun:
    """The run that a model under training belongs to."""

    id: RunId
    name: str
    owner: str
    waiting_for: str | None = None
    has_place: bool = False
    """Whether it was admitted; a trainer may keep room for its model before it says that it holds that."""


@dataclass(slots=True)
class Observed:
    is_cancel_requested: bool = False
    stop_request: StopRequest | None = None
    """What else its owner wants."""
    given_up: str | None = None
    """Why the scheduler wants it ended as failed."""
    served: KeptVersions = ()
    """Policy versions that names are served from."""
    is_broker_away: bool = False
    """It gave no answer lately, so that no worker can be heard."""
    without_rows: str | None = None
    """Why the data sets of its config can't be read now."""
    queue_depths: dict[str, float] = field(default_factory=dict[str, float])
    """Messages that wait in the run's queues, as metrics."""
    shares: Mapping[str, int] = field(default_factory=dict[str, int])
    """Most episodes in flight that are this run's share, by `ownership.capacity_key`; see `fair_shares`."""
    owner_share: int | None = None
    """Most episodes in flight that are this run's share of what its owner may have; None: any number."""
    message_sizes: Mapping[str, int] = field(default_factory=dict[str, int])
    """Most new episodes in one message, by `ownership.capacity_key`."""
    trained_runs: Mapping[ModelId, TrainedRun] = field(default_factory=dict[ModelId, TrainedRun])
    """Whose models keep the trainers busy that this run waits for."""
    advice: Advice = SEPARATE_WORKERS
    """How a worker that is missing can be had here."""

    @property
    def is_to_end(self) -> bool:
        """Whether the run is to end without starting anything more."""
        is_wanted = self.stop_request in (StopRequest.SAVE_AND_CANCEL, StopRequest.CLIENT_GONE)
        return self.is_cancel_requested or is_wanted or self.given_up is not None
