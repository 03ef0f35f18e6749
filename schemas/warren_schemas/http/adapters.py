"""Bodies about LoRA adapters that users bring. One is named by a reference: `NAME`, `OWNER/NAME`, either with `@DIGEST`."""

from typing import Annotated

from pydantic import Field, JsonValue

from warren_schemas.adapters.weights import MAX_WEIGHTS_BYTES
from warren_schemas.base import Frozen
from warren_schemas.config.numbers import (
    BaseModelName,
    DatasetReference,
    NonNegativeInt,
    PositiveInt,
    Sha256,
)
from warren_schemas.http.serving import ServedName
from warren_schemas.users.access import UserName

__all__ = ["AdapterView"]


class AdapterView(Frozen):
    """One version of an adapter. What was uploaded never changes; an upload of the same name is another version."""

    reference: str
    """`OWNER/NAME@DIGEST`, which means this version whatever is uploaded later."""
    owner: str
    name: str
    digest: str
    """SHA-256 of its `SHA256SUMS`."""
    base_model: str
    rank: PositiveInt
    alpha: float
    targets: tuple[str, ...]
    """Last names of the modules that it adapts."""
    size_bytes: NonNegativeInt
    created_s: float
    shared_with: tuple[str, ...] = ()
    """Names of users, `*` for everybody; of the adapter with all its versions."""


class AdapterList(Frozen):
    adapters: tuple[AdapterView, ...]
    """Newest first."""


class CreateAdapter(Frozen):
    """Make an adapter of a file that was uploaded, `adapter_model.safetensors`."""

    name: ServedName
    base_model: BaseModelName
    """The base model as GPU workers here call it, or `@` and the name of an uploaded one."""
    config: dict[str, JsonValue]
    """What `adapter_config.json` says."""
    sha256: Sha256
    """Of the file."""
    size_bytes: Annotated[int, Field(ge=1, le=MAX_WEIGHTS_BYTES)]


class ChooseAdapter(Frozen):
    adapter: DatasetReference


class ShareAdapter(Frozen):
    adapter: DatasetReference
    """All of its versions, whatever digest is given."""
    user: UserName | None = None
    """With whom; null: with everybody who has a key."""
