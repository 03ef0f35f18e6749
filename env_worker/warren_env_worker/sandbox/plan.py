"""How a tier starts its process: the command, what it inherits, and what the supervisor is told."""

import itertools
import json
import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from warren_env_worker.sandbox.port import SandboxFailed
from warren_env_worker.sandbox.settings import MIB, SandboxSettings

START_S = 30.0
"""How long a session may take to be ready."""
FLOOD_BYTES = 8 * MIB
"""A cell that prints more is killed."""
NICENESS = 5
N_OPEN_FILES = 64
_SHARED_UIDS = 65_536
_UIDS_EACH = 64
_LARGEST_UID = 1 << 30
"""bwrap takes larger ones for negative numbers."""
_numbers = itertools.count()


@dataclass(frozen=True, slots=True)
class Plan:
    tier: str
    program: Callable[[int], Sequence[str]]
    """The command, given the descriptor of the socket to the host."""
    descriptors: Sequence[int]
    """What the command inherits; to be closed once it runs."""


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


def as_nobody() -> list[str]:
    """What a command starts with so that it does not run as root; nothing if we are not root.

    Each sandbox gets a user of its own, so that limits on processes are each sandbox's own.
    """
    if os.geteuid() != 0:
        return []
    uid = str(_free_uid())
    return ["setpriv", f"--reuid={uid}", f"--regid={uid}", "--clear-groups", "--no-new-privs"]


def _free_uid() -> int:
    """One that no person has: from the end of the ids that this machine or container maps."""
    lines = Path("/proc/self/uid_map").read_text().splitlines()
    end = min(max(int(line.split()[0]) + int(line.split()[2]) for line in lines), _LARGEST_UID)
    offset = os.getpid() * _UIDS_EACH + next(_numbers) % _UIDS_EACH
    return max(end - _SHARED_UIDS, end // 2) + offset % min(_SHARED_UIDS - 8, end // 2)
