"""Runs of a newer gateway on the same store, as while replicas are upgraded one after the other.

Invariant: a row that this version can't read is left to a gateway that can, and is no reason to stop.
"""

from pydantic import ValidationError

from warren_gateway.store.tables import Run
from warren_schemas.config import TrainConfig


def readable_config(row: Run) -> TrainConfig | None:
    """The run's config; None where it has keys that this version doesn't know."""
    try:
        return TrainConfig.model_validate(row.config)
    except ValidationError:
        return None
