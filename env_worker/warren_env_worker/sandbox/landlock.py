"""Isolation without namespaces, for containers that forbid them: Landlock, seccomp and limits.

The session encloses itself (`inside.confinement`). It reads what Python needs, writes no file at
all, makes no socket, and signals nobody but itself. It needs Linux 6.12: older versions of Landlock
let signals out. Weaker than bubblewrap: it can tell that the host's files exist, and which sizes
they have; and the memory of what it leaves running when the host is killed is freed only when that
has used up its processor time.
"""

import os
from pathlib import Path

from warren.host_services.cells import SandboxFailed
from warren.host_services.settings import SandboxSettings
from warren.isolation.archives import descriptor_of
from warren.isolation.syscalls import filter_program
from warren.isolation.users import as_nobody
from warren_env_worker.sandbox.archive import inside
from warren_env_worker.sandbox.inside.confinement import SCOPED_ABI, landlock_abi
from warren_env_worker.sandbox.plan import (
    Plan,
    interpreter,
    libraries,
    limits_as_text,
)

_READABLE = ("/usr", "/lib", "/lib64", "/etc/ld.so.cache")
_HEADROOM = 64
"""Processes that our user may start meanwhile, where limits count those as well."""


def plan(settings: SandboxSettings) -> Plan:
    """Raises `SandboxFailed`, `CannotIsolate`."""
    abi = landlock_abi()
    if abi < SCOPED_ABI:
        raise SandboxFailed(f"Landlock has version {abi} here; {SCOPED_ABI} (Linux 6.12) is needed")
    python, program = interpreter(settings), filter_program(has_namespaces=False)
    folders = libraries(settings)
    code, rules = descriptor_of(inside()), descriptor_of(program)
    limits = limits_as_text(
        settings, disk="", n_processes=_n_processes(settings), readable=[*_READABLE, *folders]
    )

    def command(socket: int) -> list[str]:
        variables = [f"PYTHONPATH={path}" for path in folders]
        return [
            *as_nobody(),
            *("env", "-i", "-C", "/", "PATH=/usr/bin", "HOME=/", "LANG=C.UTF-8", *variables),
            *("PYTHONDONTWRITEBYTECODE=1", "PYTHONHASHSEED=0"),
            *("OPENBLAS_NUM_THREADS=1", "OMP_NUM_THREADS=1"),
            *(python, "-s", "-S", f"/proc/self/fd/{code}", str(socket), str(rules), limits),
        ]

    return Plan("landlock", command, (code, rules))


def _n_processes(settings: SandboxSettings) -> int:
    """The kernel counts all of a user's processes: ours too, unless the sandbox has its own user."""
    own = 0 if os.geteuid() == 0 else _HEADROOM + _n_threads_of(os.geteuid())
    return settings.limits.processes + own


def _n_threads_of(uid: int) -> int:
    n_threads = 0
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if process.stat().st_uid == uid:
                n_threads += len(list((process / "task").iterdir()))
        except OSError:  # it has ended
            continue
    return n_threads
