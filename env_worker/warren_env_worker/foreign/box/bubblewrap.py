"""What is found in a box that stands for a container, as a command line of bubblewrap that another program runs.

It sees this machine's `/usr`, read-only, as if that were its image; everything else may be written, lies in memory, and
ends with the box. It is root there, of itself alone: there is no other user, and no right over anything of the machine.
Nothing answers on its network but what it starts itself, unless the box has that of the machine.
"""

import base64
import shutil
from functools import lru_cache
from pathlib import Path

import warren
from warren.agents.box.bubblewrap import MIB, folders, namespaces, own_python, seen, shown_to_nobody
from warren.agents.box.offering import granted
from warren.agents.environment import Agent
from warren.environment import ConfigError
from warren.isolation.archives import archive
from warren.isolation.errors import CannotIsolate
from warren.isolation.syscalls import INTERNET, filter_program
from warren_env_worker.permissions.permissions import Permissions
from warren_schemas.isolation.agent_box import Box

_MAIN = "warren_env_worker.foreign.box.inside"
_OF_SDK = ("warren.agents.box.inside", "warren.agents.subreaper")
_ARCHIVE, _PASSWD, _GROUP, _HOSTS = "/run/warren.zip", "/etc/passwd", "/etc/group", "/etc/hosts"
_MADE = ("/etc", "/run", "/root", "/home", "/opt", "/var", "/var/tmp", "/mnt", "/srv")
_WRITTEN = {
    _PASSWD: "root:x:0:0:root:/root:/bin/bash\n",
    _GROUP: "root:x:0:\n",
    _HOSTS: "127.0.0.1 localhost\n",
}
_RULES = "rules"
USUAL = Box(memory_mib=2048, processes=256)
USUAL_DISK_MIB = 512
"""Written files lie in memory, so no more than the memory that the operator allows."""
_SHARED_MEMORY_BYTES = 64 * MIB


def chosen(asked: Box | None, permissions: Permissions) -> Box:
    """The box that a config asks for; None: `USUAL`, or as much of it as there may be. A config is not the author of a
    class: without a word of the operator's it gets at most `USUAL`. Raises `ConfigError`."""
    most = _most(permissions)
    if most is None:
        return asked or USUAL
    if asked is not None:
        granted(asked, most)
        return asked
    memory_mib, processes = (
        min(USUAL.memory_mib, most.memory_mib),
        min(USUAL.processes, most.processes),
    )
    return Box(memory_mib=memory_mib, processes=processes)


def chosen_disk_mib(asked: int | None, permissions: Permissions) -> int:
    """The same for the size of its disk. Raises `ConfigError`."""
    most = _most(permissions)
    if most is None:
        return asked or USUAL_DISK_MIB
    if asked is not None and asked > most.memory_mib:
        raise ConfigError(
            f"disk_mib: {asked} is more than this env worker's operator allows ({most.memory_mib})"
        )
    return asked or min(USUAL_DISK_MIB, most.memory_mib)


def _most(permissions: Permissions) -> Box | None:
    return permissions.agent_box or (None if permissions.is_trusted else USUAL)


def refuse_unused(sandbox: str | None, **given: bool) -> None:
    """Raises `ConfigError` for settings of a box that are given where there is none."""
    names = [name for name, is_given in given.items() if is_given]
    if sandbox != "box" and names:
        chosen_one = f"sandbox: {sandbox}" if sandbox else "the task's own sandbox"
        raise ConfigError(f"{', '.join(names)}: no effect with {chosen_one}; leave it out")


def granted_isolation(asked: Box, disk_mib: int, agent: Agent) -> dict[str, object]:
    """Of a box for this episode. Raises `ConfigError` where there is none, or none so large."""
    box = granted(asked, agent.context.max_box)
    assert box is not None  # it was asked for
    try:
        return isolation(box, disk_mib)
    except CannotIsolate as error:
        raise ConfigError(f"sandbox: there is no box on this env worker: {error}") from error


def isolation(box: Box, disk_mib: int) -> dict[str, object]:
    """`line`, in which `{NAME}` stands for the descriptor of that one of `files`, whose content is in base64. Raises
    `CannotIsolate`."""
    bwrap = shutil.which("bwrap")
    if bwrap is None:
        raise CannotIsolate("bwrap is not installed (Debian: bubblewrap)")
    python, base = own_python()
    shown = seen(box, base)
    limits = [str(box.memory_mib * MIB), str(box.processes)]
    line = [
        *shown_to_nobody(bwrap, shown),
        *(bwrap, *namespaces(box.network == "endpoint", user=0), *_file_system(shown, disk_mib)),
        *("--clearenv", "--chdir", "/", "--cap-drop", "ALL", "--seccomp", f"{{{_RULES}}}", "--"),
        *(python, "-I", "-S", _ARCHIVE, *limits),
    ]
    rules = filter_program(has_namespaces=True, families=INTERNET)
    files = {_RULES: rules, _ARCHIVE: _archive()} | {p: t.encode() for p, t in _WRITTEN.items()}
    return {"line": line, "files": {n: base64.b64encode(c).decode() for n, c in files.items()}}


def _file_system(shown: list[str], disk_mib: int) -> list[str]:
    disk = ("--size", str(disk_mib * MIB), "--perms", "0755", "--tmpfs", "/")
    written = [p for path in _WRITTEN for p in ("--perms", "0644", "--file", f"{{{path}}}", path)]
    return [
        *disk,
        *("--proc", "/proc", "--dev", "/dev", "--perms", "1777", "--dir", "/tmp"),
        *("--size", str(_SHARED_MEMORY_BYTES), "--perms", "1777", "--tmpfs", "/dev/shm"),
        *("--remount-ro", "/dev"),
        *folders(_MADE),
        *shown,
        *written,
        *("--perms", "0444", "--ro-bind-data", f"{{{_ARCHIVE}}}", _ARCHIVE),
    ]


@lru_cache(maxsize=1)
def _archive() -> bytes:
    sdk = Path(warren.__file__).parents[1]
    modules = {name: sdk.joinpath(*name.split(".")).with_suffix(".py") for name in _OF_SDK}
    return archive(_MAIN, modules | {_MAIN: Path(__file__).with_name("inside.py")})
