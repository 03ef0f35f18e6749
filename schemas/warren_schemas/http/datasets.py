"""Bodies about data sets. A data set is named by a reference: `NAME`, `OWNER/NAME`, either with `@DIGEST`."""

from typing import Annotated

from pydantic import Field, JsonValue

from warren_schemas.base import Frozen, Listed
from warren_schemas.config.numbers import (
    DatasetName,
    DatasetReference,
    NonNegativeInt,
    PositiveInt,
    Sha256,
    SplitName,
)
from warren_schemas.datasets.rows import DatasetKind
from warren_schemas.users.access import UserName

__all__ = ["DatasetKind", "DatasetRows", "DatasetSplit", "DatasetView"]

MAX_SPLITS = 16


class DatasetSplit(Frozen):
    """One file of JSON lines."""

    name: str
    sha256: str
    size_bytes: NonNegativeInt
    n_rows: NonNegativeInt
    columns: dict[str, str]
    """Names of the columns, with the types of their values."""


class DatasetView(Frozen):
    """One version of a data set. What was uploaded never changes; an upload of the same name is another version."""

    reference: str
    """`OWNER/NAME@DIGEST`, which means this version whatever is uploaded later."""
    owner: str
    name: str
    digest: str
    """SHA-256 of the lines `SHA256  SPLIT.jsonl`, by name of the split."""
    kind: DatasetKind
    splits: tuple[DatasetSplit, ...]
    size_bytes: NonNegativeInt
    n_rows: NonNegativeInt
    created_s: float
    shared_with: tuple[str, ...] = ()
    """Names of users, `*` for everybody; of the data set with all its versions."""


class DatasetList(Frozen):
    datasets: tuple[DatasetView, ...]
    """Newest first."""


class DatasetRows(Frozen):
    dataset: DatasetView
    split: str
    offset: NonNegativeInt
    """Number of the first of these rows, counted from 0."""
    rows: tuple[dict[str, JsonValue], ...]


class UploadedFile(Frozen):
    split: SplitName
    sha256: Sha256
    size_bytes: PositiveInt


class CreateDataset(Frozen):
    """Make a data set of files that were uploaded."""

    name: DatasetName
    kind: DatasetKind
    files: Annotated[Listed[UploadedFile], Field(min_length=1, max_length=MAX_SPLITS)]


class ChooseDataset(Frozen):
    dataset: DatasetReference


class ShareDataset(Frozen):
    dataset: DatasetReference
    """All of its versions, whatever digest is given."""
    user: UserName | None = None
    """With whom; null: with everybody who has a key."""
