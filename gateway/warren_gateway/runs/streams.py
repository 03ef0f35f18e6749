"""The streams of a run; its recording is kept as long as its config says."""

from warren_broker.topology import Stream, run_events, run_log, trajectories
from warren_schemas.config import TrainConfig


def recording(run: str, config: TrainConfig) -> Stream:
    """Where the run's trajectories are recorded."""
    retention = config.retention
    return trajectories(run, max_age_s=retention.age_s, max_size_bytes=retention.size_bytes)


def streams_of(run: str, config: TrainConfig) -> tuple[Stream, ...]:
    """All that a run has, from its making to its deletion."""
    return recording(run, config), run_events(run), run_log(run)
