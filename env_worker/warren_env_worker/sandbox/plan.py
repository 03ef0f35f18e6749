"""How a tier starts its process: the command, what it inherits, and what the supervisor is told."""

import json
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from warren.host_services.cells import SandboxFailed
from warren.host_services.settings import MIB, SandboxSettings

START_S = 30.0
"""How long a session may take to be ready."""
FLOOD_BYTES = 8 * MIB
"""A cell that prints more is killed."""
NICENESS = 5
N_OPEN_FILES = 64


@dataclass(frozen=True, slots=True)
class Plan:
    tier: str
    program: Callable[[int], Sequence[str]]
    """The command, given the descriptor of the socket to the host."""
    descriptors: Sequence[int]
    """What the command inherits; to be closed once it runs."""
    variables: Mapping[str, str] = field(default_factory=lambda: {"PATH": os.defpath})
    """All that it gets of ours."""
    start_s: float = START_S
    greeting: bytes | None = None
    """A frame that is sent before the session says that it is ready."""


def interpreter(settings: SandboxSettings) -> str:
    """The Python that runs inside. Raises `SandboxFailed`."""
    own = os.path.realpath(sys.executable)
    for path in (settings.python, own if own.startswith("/usr/") else None, "/usr/bin/python3"):
        if path is not None and os.access(path, os.X_OK):
            return path
        if path is not None and path == settings.python:
            raise SandboxFailed(f"python: {path} can't be run")
    raise SandboxFailed("there is no Python below /usr; name one as `python` of the sandbox")


def libraries(settings: SandboxSettings) -> list[str]:
    """The folder of packages that cells may import, if there is one. Raises `SandboxFailed`.

    A run's config names it, so it must look like one: cells read whatever lies there.
    """
    folder = settings.libraries
    if folder is None:
        return []
    if not any(Path(folder).glob("*.dist-info")):
        raise SandboxFailed(
            f"libraries: no packages were installed by pip install --target {folder}"
        )
    return [folder]


def limits_as_text(
    settings: SandboxSettings, *, disk: str, n_processes: int, readable: Sequence[str] = ()
) -> str:
    """For the supervisor, in its own words."""
    limits = settings.limits
    cpu_s = int(limits.cell_s * (os.cpu_count() or 1)) + 2
    return json.dumps(
        {
            "start_s": START_S,
            "memory_bytes": limits.memory_mib * MIB,
            "n_processes": limits.processes,
            "n_files": limits.files,
            "output_bytes": limits.output_bytes,
            "flood_bytes": FLOOD_BYTES,
            "disk": disk,
            "nice": NICENESS,
            "readable": readable,
            "devices": ["/dev/null", "/dev/zero", "/dev/urandom", "/dev/random"],
            "resources": {
                "RLIMIT_AS": 2 * limits.memory_mib * MIB,
                "RLIMIT_CPU": cpu_s,
                "RLIMIT_NPROC": n_processes,
                "RLIMIT_FSIZE": limits.disk_mib * MIB,
                "RLIMIT_NOFILE": N_OPEN_FILES,
                "RLIMIT_CORE": 0,
            },
        }
    )
