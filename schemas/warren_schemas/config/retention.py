"""How long what a run records is kept."""

from typing import Annotated, Literal

from pydantic import Field

from warren_schemas.config.written import Config

ArchiveFormat = Literal["jsonl", "parquet"]


class RetentionConfig(Config):
    """How long trajectories stay where they can be looked at, exported and replayed."""

    age_s: Annotated[float, Field(ge=600)] = 7 * 24 * 3600.0
    """Trajectories may be deleted when they are older."""
    size_bytes: Annotated[int, Field(ge=16_000_000, le=2**53)] = 2_000_000_000
    """The oldest trajectories may be deleted when the run has recorded more than this."""
    archive: ArchiveFormat | None = None
    """Copy all of them to files in the gateway's archive, as `jsonl` (zstd) or `parquet`."""
