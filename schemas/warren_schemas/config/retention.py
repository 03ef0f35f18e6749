"""How long what a run records is kept."""

from typing import Annotated, Literal

from pydantic import Field

from warren_schemas.text.written import Config

ArchiveFormat = Literal["jsonl", "parquet"]


class RetentionConfig(Config):
    """How long recorded trajectories can be viewed, exported and replayed."""

    age_s: Annotated[float, Field(ge=600)] = 7 * 24 * 3600.0
    """Maximum age of trajectories; older ones may be deleted."""
    size_bytes: Annotated[int, Field(ge=16_000_000, le=2**53)] = 2_000_000_000
    """Maximum size of the recording; beyond it the oldest trajectories may be deleted."""
    archive: ArchiveFormat | None = None
    """Also write all trajectories to the gateway's archive, as `jsonl` (zstd) or `parquet`; null is off."""
