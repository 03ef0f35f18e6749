"""What a run may be made to replay."""

from sqlmodel import Session

from warren_gateway.access.caller import Viewer
from warren_gateway.runs.owned import readable_run
from warren_schemas.config import ClientSource, RecordedSource, TrainConfig
from warren_schemas.events import RunState


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
        recorder = _require_recording(session, viewer, name, config.source.needs_the_end)
        if config.source.from_archive and recorder.retention.archive is None:
            raise UnusableSource(
                f"{name} keeps no archive (its retention.archive is not set); leave source.from_archive out"
            )
        if config.source.is_scored or config.evaluates_recorded:
            _require_environments(config, config.source, recorder)


def _require_environments(
    config: TrainConfig, source: RecordedSource, recorder: TrainConfig
) -> None:
    """Who gives rewards, or has results, must be named, for all that the filter leaves."""
    named = {environment.name for environment in config.environments}
    recorded = {environment.name for environment in recorder.environments}
    if source.where.environments:
        recorded &= set(source.where.environments)
    if missing := sorted(recorded - named):
        why = (
            "with source.rewards: scored the environments of this config give the rewards"
            if source.is_scored
            else "results are told by the environments of this config"
        )
        raise UnusableSource(
            f"its episodes are of {' and '.join(missing)}, too, and {why}; add what is missing, or leave it out with"
            " source.where.environments"
        )


def _require_recording(
    session: Session, viewer: Viewer, name: str, whole: str | None
) -> TrainConfig:
    """The config of the run; `whole`: the key that needs its end."""
    row = readable_run(session, viewer, name)
    if row is None:
        raise UnusableSource(f"there is no run {name} whose trajectories could be replayed")
    recorder = TrainConfig.model_validate(row.config)
    if isinstance(recorder.source, RecordedSource):
        raise UnusableSource(f"{name} is a replay itself; replay {recorder.source.named} instead")
    if whole is not None and not RunState(row.state).is_final:
        raise UnusableSource(
            f"{whole} needs all of a recording, and {name} is {row.state}: wait for its end, or leave"
            f" {whole} out to follow it"
        )
    return recorder
