"""Bodies about base models that users bring. One is named by a reference: `NAME`, `OWNER/NAME`, either with `@DIGEST`."""

from typing import Annotated

from pydantic import Field

from warren_schemas.base import Frozen, Listed
from warren_schemas.base_models.files import MAX_FILES, MAX_MODEL_BYTES
from warren_schemas.config.numbers import (
    DatasetReference,
    NonNegativeInt,
    PositiveInt,
    Sha256,
)
from warren_schemas.http.serving import ServedName
from warren_schemas.users.access import UserName

__all__ = ["BaseModelView"]


class BaseModelView(Frozen):
    """One version of a base model. What was uploaded never changes; an upload of the same name is another version."""

    reference: str
    """`OWNER/NAME@DIGEST`, which means this version whatever is uploaded later; configs have an `@` before it."""
    owner: str
    name: str
    digest: str
    """SHA-256 of its `SHA256SUMS`."""
    base_model: str
    """What GPU workers call it."""
    architecture: str
    n_parameters: PositiveInt
    size_bytes: NonNegativeInt
    created_s: float
    shared_with: tuple[str, ...] = ()
    """Names of users, `*` for everybody; of the base model with all its versions."""


class BaseModelList(Frozen):
    base_models: tuple[BaseModelView, ...]
    """Newest first."""


class BaseModelFile(Frozen):
    """One that was uploaded."""

    name: Annotated[str, Field(min_length=1, max_length=128)]
    sha256: Sha256
    size_bytes: Annotated[int, Field(ge=1, le=MAX_MODEL_BYTES)]


class CreateBaseModel(Frozen):
    """Make a base model of files that were uploaded."""

    name: ServedName
    files: Annotated[Listed[BaseModelFile], Field(min_length=1, max_length=MAX_FILES)]

    @property
    def size_bytes(self) -> int:
        return sum(file.size_bytes for file in self.files)


class ChooseBaseModel(Frozen):
    base_model: DatasetReference


class ShareBaseModel(Frozen):
    base_model: DatasetReference
    """All of its versions, whatever digest is given."""
    user: UserName | None = None
    """With whom; null: with everybody who has a key."""
