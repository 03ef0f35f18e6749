"""What a config refers to at this gateway: recordings, base models, checkpoints, data sets and adapters. All that is wrong is told at once."""

from sqlmodel import Session

from warren_gateway.access.caller import Viewer
from warren_gateway.adapters.problems import UnusableAdapter
from warren_gateway.adapters.resolving import with_adapter
from warren_gateway.base_models.problems import UnusableBaseModel
from warren_gateway.base_models.resolving import with_base
from warren_gateway.datasets.problems import UnusableDataset
from warren_gateway.datasets.resolving import resolved
from warren_gateway.runs.checkpoints import UnusableCheckpoint, require_checkpoint
from warren_gateway.runs.sources import UnusableSource, require_source
from warren_schemas.config import TrainConfig


def mistakes_in_references(
    session: Session, viewer: Viewer, config: TrainConfig
) -> tuple[list[str], TrainConfig]:
    """For each key that is wrong a sentence; and the config as it would be stored, if it could be."""
    mistakes: list[str] = []
    try:
        require_source(session, viewer, config)
    except UnusableSource as error:
        mistakes.append(f"source.run: {error}")
    try:
        config = with_base(session, viewer, config)
    except UnusableBaseModel as error:
        mistakes.append(str(error))
    try:
        require_checkpoint(session, viewer, config)
    except UnusableCheckpoint as error:
        mistakes.append(f"resume_from: {error}")
    try:
        config = resolved(session, viewer, config)
    except UnusableDataset as error:
        mistakes.append(str(error))
    try:
        config = with_adapter(session, viewer, config)
    except UnusableAdapter as error:
        mistakes.append(str(error))
    return mistakes, config
