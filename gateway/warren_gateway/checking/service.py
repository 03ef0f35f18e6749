"""Looks into the store for what a config that is not submitted refers to, and for runs like it."""

from dataclasses import dataclass
from functools import partial

from sqlmodel import Session

from warren_gateway.access.caller import Viewer
from warren_gateway.checking.references import mistakes_in_references
from warren_gateway.checking.similar import expectation
from warren_gateway.datasets.resolving import learns_recorded
from warren_gateway.runs.checkpoints import newest_size
from warren_gateway.store.store import Store
from warren_schemas.check import RunExpectation
from warren_schemas.config import TrainConfig


@dataclass(frozen=True, slots=True)
class Looked:
    mistakes: list[str]
    """In what it refers to."""
    config: TrainConfig
    """As it would be stored, if it could be."""
    checkpoint_bytes: int | None
    """Of the newest checkpoint of such a model."""
    expected: RunExpectation | None
    learns_recorded: bool
    """The rows that it is fine-tuned on are recorded episodes."""


class Checking:
    def __init__(self, store: Store) -> None:
        self._store = store

    async def look(self, viewer: Viewer, config: TrainConfig) -> Looked:
        """Raises `StoreUnavailable`."""
        return await self._store.transact(partial(_look, viewer, config))


def _look(viewer: Viewer, config: TrainConfig, session: Session) -> Looked:
    mistakes, found = mistakes_in_references(session, viewer, config)
    size_bytes = newest_size(session, viewer, config)
    expected, is_recorded = expectation(session, viewer, found), learns_recorded(session, found)
    return Looked(mistakes, found, size_bytes, expected, is_recorded)
