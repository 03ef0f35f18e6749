"""Isolation by namespaces: a file system, processes, a network and users of its own (bubblewrap).

What it sees is /usr, read-only, and files of its own that lie in memory. It needs `bwrap` and a
kernel and container that let it make user namespaces; no root.
"""

import shutil

from warren.host_services.cells import SandboxFailed
from warren.host_services.settings import MIB, SandboxSettings
from warren.isolation.archives import descriptor_of
from warren.isolation.syscalls import filter_program
from warren.isolation.users import as_nobody
from warren_env_worker.sandbox.archive import inside
from warren_env_worker.sandbox.plan import (
    Plan,
    interpreter,
    libraries,
    limits_as_text,
)

_ARCHIVE = "/opt/warren.zip"
_LIBRARIES = "/opt/lib"
_SHARED_MEMORY_BYTES = MIB
_VARIABLES = {
    "PATH": "/usr/bin:/bin",
    "HOME": "/tmp",
    "LANG": "C.UTF-8",
    "PYTHONPATH": _LIBRARIES,
    "PYTHONDONTWRITEBYTECODE": "1",
    "PYTHONHASHSEED": "0",
    "OPENBLAS_NUM_THREADS": "1",
    "OMP_NUM_THREADS": "1",
    "MPLBACKEND": "Agg",
}


def plan(settings: SandboxSettings) -> Plan:
    """Raises `SandboxFailed`, `CannotIsolate`."""
    if shutil.which("bwrap") is None:
        raise SandboxFailed("bwrap is not installed (Debian: bubblewrap)")
    python, program = interpreter(settings), filter_program(has_namespaces=True)
    folders = libraries(settings)
    code, rules = descriptor_of(inside()), descriptor_of(program)
    limits = limits_as_text(settings, disk="/tmp", n_processes=settings.limits.processes)

    def command(socket: int) -> list[str]:
        return [
            *as_nobody(),
            *_isolation(settings, folders, code, rules),
            *(python, "-s", "-S", _ARCHIVE, str(socket), "-1", limits),
        ]

    return Plan("bubblewrap", command, (code, rules))


def _isolation(settings: SandboxSettings, folders: list[str], code: int, rules: int) -> list[str]:
    disk_bytes = settings.limits.disk_mib * MIB
    variables = [part for item in _VARIABLES.items() for part in ("--setenv", *item)]
    packages = [part for path in folders for part in ("--ro-bind", path, _LIBRARIES)]
    return [
        "bwrap",
        *("--unshare-user", "--unshare-ipc", "--unshare-pid", "--unshare-net", "--unshare-uts"),
        *("--unshare-cgroup-try", "--disable-userns", "--die-with-parent", "--new-session"),
        *("--as-pid-1", "--uid", "1000", "--gid", "1000", "--hostname", "sandbox", "--clearenv"),
        *variables,
        *("--ro-bind", "/usr", "/usr", "--symlink", "usr/bin", "/bin"),
        *("--symlink", "usr/lib", "/lib", "--symlink", "usr/lib64", "/lib64"),
        *("--ro-bind-try", "/etc/ld.so.cache", "/etc/ld.so.cache"),
        *packages,
        *("--perms", "0444", "--ro-bind-data", str(code), _ARCHIVE),
        *("--proc", "/proc", "--dev", "/dev"),
        *("--size", str(disk_bytes), "--perms", "0700", "--tmpfs", "/tmp"),
        *("--size", str(_SHARED_MEMORY_BYTES), "--tmpfs", "/dev/shm"),
        *("--remount-ro", "/dev", "--remount-ro", "/", "--chdir", "/tmp", "--cap-drop", "ALL"),
        *("--seccomp", str(rules), "--"),
    ]
