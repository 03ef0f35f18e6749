"""The streams of a run, kept as long as its config says."""

from warren_broker.topology import Stream, trajectories
from warren_schemas.config import TrainConfig


def recording(run: str, config: TrainConfig) -> Stream:
    """Where the run's trajectories are recorded."""
    retention = config.retention
    return trajectories(run, max_age_s=retention.age_s, max_size_bytes=retention.size_bytes)
