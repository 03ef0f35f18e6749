"""Bodies about what users upload, whatever it is: data sets, adapters, base models."""

from warren_schemas.base import Frozen
from warren_schemas.config.numbers import NonNegativeInt

MAX_CHUNK_BYTES = 4 * 1024 * 1024
"""Of a file that is uploaded, at a time; of rows, whole lines."""


class UploadProgress(Frozen):
    """How much of a file has come."""

    sha256: str
    received_bytes: NonNegativeInt


class VersionsDeleted(Frozen):
    deleted: tuple[str, ...]
    """References of the versions that are gone."""
