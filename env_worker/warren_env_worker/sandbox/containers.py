"""Isolation by a container of an image that the operator allows: by Podman, or by Docker.

It has no network, a root file system that nobody can write, `/tmp` in memory, no capabilities and a user without rights;
our seccomp filter holds besides the engine's. The image needs Python 3 with `ctypes`; our session runs in it as process 1, and
speaks over the container's standard input and output.

Invariants: no image is pulled, so that a config sends this machine nowhere; a container ends once its input does, so
that none outlives whoever started it, but for the time that a cell may still take (`container_session` kills it at once).
"""

import base64
import json
import os
import shutil
import sys
from collections.abc import Mapping
from typing import Literal

from warren.host_services.cells import SandboxFailed
from warren.host_services.settings import SandboxSettings
from warren.isolation.syscalls import filter_program
from warren_env_worker.sandbox.archive import inside
from warren_env_worker.sandbox.plan import N_OPEN_FILES, Plan, limits_as_text

Engine = Literal["podman", "docker"]
ENGINES: tuple[Engine, ...] = ("podman", "docker")
"""In the order in which they are tried."""
START_S = 120.0
"""Some storage drivers copy the image for each container."""
PROBE = """
import os, socket
def closed(what, *arguments):
    try:
        what(*arguments)
    except OSError:
        return True
print(os.getuid() != 0 and set(os.listdir("/sys/class/net")) <= {"lo"}, closed(open, "/warren", "w"),
    closed(os.setuid, 0), closed(socket.socket, socket.AF_INET), closed(socket.socket, socket.AF_NETLINK))
"""

USER = 65534
N_OWN_PROCESSES = 8
"""Of ours and of the engine's."""
MAX_OF_USER = 1 << 15
"""Processes of the user, whom other containers share: the engine counts those of this one."""
VARIABLES = {
    "HOME": "/tmp",
    "LANG": "C.UTF-8",
    "PYTHONDONTWRITEBYTECODE": "1",
    "PYTHONHASHSEED": "0",
    "OPENBLAS_NUM_THREADS": "1",
    "OMP_NUM_THREADS": "1",
    "MPLBACKEND": "Agg",
}
_PASSED = ("HOME", "USER", "TMPDIR", "XDG_RUNTIME_DIR", "DBUS_SESSION_BUS_ADDRESS")
_PASSED_PREFIXES = ("DOCKER_", "CONTAINER_", "CONTAINERS_")
JOIN = "import os, sys; os.dup2(int(sys.argv[1]), 0); os.dup2(0, 1); os.execvp(sys.argv[2], sys.argv[2:])"
"""Run a program with a socket as its input and output."""
BOOT = """
# What follows empties /tmp when a cell fills it: never where that is not a container's own.
import base64, os, sys
if os.getpid() != 1 or not os.path.ismount("/tmp"):
    sys.exit("this is no container: its engine has not isolated it as it was told")
path, (_, archive, rules, limits) = "/tmp/warren.zip", sys.argv
filter = os.memfd_create("rules")
os.write(filter, base64.b64decode(rules))
with open(path, "wb") as file:
    file.write(base64.b64decode(archive))
sys.path.insert(0, path)
sys.argv[:] = [path, "-1", str(filter), limits]
from warren_env_worker.sandbox.inside import supervisor
os.unlink(path)
supervisor.main()
"""


def program_of(engine: Engine) -> str:
    """Raises `SandboxFailed`."""
    program = shutil.which(engine)
    if program is None:
        raise SandboxFailed(f"{engine} is not installed")
    return program


def plan(engine: Engine, settings: SandboxSettings, name: str) -> Plan:
    """Of a container of this name. Raises `SandboxFailed`, `CannotIsolate`."""
    assert settings.image is not None
    limits = limits_as_text(settings, disk="/tmp", n_processes=MAX_OF_USER)
    rules = filter_program(has_namespaces=True)
    started = [
        *(program_of(engine), "run", "--name", name, *_isolation(settings)),
        *("--entrypoint", _entrypoint(engine, settings.python or "python3"), settings.image),
        *("-s", "-S", "-c", BOOT, as_text(inside()), as_text(rules), limits),
    ]
    return Plan(
        engine,
        lambda socket: [sys.executable, "-I", "-S", "-c", JOIN, str(socket), *started],
        (),
        variables=variables(),
        start_s=START_S,
    )


def _entrypoint(engine: Engine, python: str) -> str:
    """Podman reads JSON where it can, so it gets JSON: what a config names is one program and nothing else."""
    return json.dumps([python]) if engine == "podman" else python


def as_text(content: bytes) -> str:
    return base64.b64encode(content).decode()


def _isolation(settings: SandboxSettings) -> list[str]:
    limits = settings.limits
    memory = f"{limits.memory_mib}m"
    variables = [part for name, value in VARIABLES.items() for part in ("--env", f"{name}={value}")]
    return [
        *("--rm", "--interactive", "--pull", "never", "--log-driver", "none"),
        *("--network", "none", "--read-only", "--cap-drop", "ALL"),
        *(
            "--security-opt",
            "no-new-privileges",
            "--user",
            f"{USER}:{USER}",
            "--hostname",
            "sandbox",
        ),
        *("--memory", memory, "--memory-swap", memory),
        *("--pids-limit", str(limits.processes + N_OWN_PROCESSES)),
        *("--ulimit", f"nofile={N_OPEN_FILES}:{N_OPEN_FILES}", "--ulimit", "core=0:0"),
        *("--ulimit", f"nproc={MAX_OF_USER}:{MAX_OF_USER}"),
        *("--tmpfs", f"/tmp:rw,nosuid,nodev,size={limits.disk_mib}m,mode=1777"),
        *("--shm-size", "1m", "--workdir", "/tmp", *variables),
    ]


def variables() -> Mapping[str, str]:
    """Those that say where the engine is, and none of ours."""
    told = {
        name: value
        for name, value in os.environ.items()
        if name in _PASSED or name.startswith(_PASSED_PREFIXES)
    }
    return {**told, "PATH": os.environ.get("PATH", os.defpath)}
