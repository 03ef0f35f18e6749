"""Which sandbox, and its limits: as they stand in an environment's config."""

import re
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
Tier = Literal["auto", "bubblewrap", "landlock", "monty", "http", "podman", "docker", "kubernetes"]
_CONTAINERS = ("podman", "docker", "kubernetes")
_PROGRAM = re.compile(r"[A-Za-z0-9_./][A-Za-z0-9_./-]*")
"""In an image. It is handed to engines that read other texts as options, lists or variables."""


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
    """`auto` takes the first of bubblewrap, landlock and monty that works here; with an image, of podman, docker and kubernetes."""
    image: str | None = Field(
        default=None, pattern=r"^[A-Za-z0-9][A-Za-z0-9_./:@-]*$", max_length=255
    )
    """A container image with Python, which is there already; for the tiers podman, docker and kubernetes."""
    url: str | None = None
    """Of a service that speaks SandboxFusion's `/run_code`; for the tier http."""
    key_variable: SecretVariable | None = None
    """Environment variable with the key of that service, sent as `Authorization: Bearer <key>`; it
    begins with `WARREN_SECRET_`."""
    python: str | None = None
    """The interpreter within; None: this one if it lies below /usr, else /usr/bin/python3. With an image: one of its own, by
    its plain name or path, python3 unless named."""
    libraries: str | None = None
    """A folder made by `pip install --target`; what lies in it can be imported within."""
    limits: SandboxLimits = Field(default_factory=SandboxLimits)

    def in_image(self, image: str) -> Self:
        """The same in a container of this image. Raises `ValidationError`, which is a `ValueError`."""
        return self.model_validate(self.model_dump(exclude_unset=True) | {"image": image})

    @model_validator(mode="after")
    def _addressed(self) -> Self:
        if (self.tier == "http") != (self.url is not None):
            raise ValueError("url: needed for the tier http, and for no other")
        if self.image is not None and self.tier not in ("auto", *_CONTAINERS):
            raise ValueError(f"image: has no effect with the tier {self.tier}; leave the tier out")
        if self.image is None and self.tier in _CONTAINERS:
            raise ValueError(f"image: needed for the tier {self.tier}")
        if not (self.image is None or self.python is None or _PROGRAM.fullmatch(self.python)):
            raise ValueError("python: with an image, the plain name or path of a program in it")
        if self.image is not None and self.libraries is not None:
            raise ValueError("libraries: has no effect with an image; install them in the image")
        if self.key_variable is not None and self.url is None:
            raise ValueError("key_variable: goes with a url")
        return self
