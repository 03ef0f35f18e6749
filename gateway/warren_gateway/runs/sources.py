"""What a run may be made to replay."""

from sqlmodel import Session

from warren_gateway.access.caller import Viewer
from warren_gateway.runs.owned import readable_run
from warren_schemas.config import ClientSource, RecordedSource, TrainConfig


class UnusableSource(Exception):
    """`source` names nothing that can be replayed; says what and why."""


def require_source(session: Session, viewer: Viewer, config: TrainConfig) -> None:
    """Raises `UnusableSource` unless the config's source is live, or a recording that this viewer may see."""
    if isinstance(config.source, ClientSource):
        raise UnusableSource(
            "a model that a client drives is created, and no run is submitted for it: see docs/primitives.md"
        )
    if not isinstance(config.source, RecordedSource):
        return
    for name in config.source.runs:
        _require_recording(session, viewer, name)


def _require_recording(session: Session, viewer: Viewer, name: str) -> None:
    row = readable_run(session, viewer, name)
    if row is None:
        raise UnusableSource(f"there is no run {name} whose trajectories could be replayed")
    recorder = TrainConfig.model_validate(row.config)
    if isinstance(recorder.source, RecordedSource):
        raise UnusableSource(
            f"{name} is a replay itself and recorded nothing; replay {recorder.source.run} instead"
        )
