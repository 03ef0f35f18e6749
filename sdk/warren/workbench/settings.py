"""Which sandbox, and its limits: as they stand in an environment's config."""

from typing import Literal, Self

from pydantic import Field, model_validator

from warren_schemas.base import Frozen
from warren_schemas.config.sandbox import (
    CellSeconds,
    DiskMib,
    Files,
    MemoryMib,
    OutputBytes,
    Processes,
)
from warren_schemas.fields.secret_variables import SecretVariable

MIB = 1 << 20
Tier = Literal["auto", "bubblewrap", "landlock", "monty", "http"]


class SandboxLimits(Frozen):
    """Of one session."""

    cell_s: CellSeconds = 10.0
    """How long a cell may run."""
    memory_mib: MemoryMib = 512
    """Of all its processes together."""
    processes: Processes = 32
    disk_mib: DiskMib = 64
    """Of its own files, which lie in memory; the landlock tier lets it write none."""
    files: Files = 10_000
    output_bytes: OutputBytes = 16_384
    """Of what a cell prints, as much is kept: the beginning and the end."""


class SandboxSettings(Frozen):
    tier: Tier = "auto"
    """`auto` takes the first of bubblewrap, landlock and monty that works here."""
    url: str | None = None
    """Of a service that speaks SandboxFusion's `/run_code`; for the tier http."""
    key_variable: SecretVariable | None = None
    """Environment variable with the key of that service, sent as `Authorization: Bearer <key>`; it
    begins with `WARREN_SECRET_`."""
    python: str | None = None
    """The interpreter within; None: this one if it lies below /usr, else /usr/bin/python3."""
    libraries: str | None = None
    """A folder made by `pip install --target`; what lies in it can be imported within."""
    limits: SandboxLimits = Field(default_factory=SandboxLimits)

    @model_validator(mode="after")
    def _addressed(self) -> Self:
        if (self.tier == "http") != (self.url is not None):
            raise ValueError("url: needed for the tier http, and for no other")
        if self.key_variable is not None and self.url is None:
            raise ValueError("key_variable: goes with a url")
        return self
