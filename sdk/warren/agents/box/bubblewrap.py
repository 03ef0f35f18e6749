"""What a program finds within its box, as a command line of bubblewrap.

It sees `/usr`, its folder and what its box names, all read-only, a few files of `/etc` without which programs stumble,
and a `/tmp` of its own in memory. It needs `bwrap` and a kernel and container that let it make user namespaces.

As root there are two of them: the outer one, with root's rights, shows what the program may read to a user that nobody
else has, whom folders like `/root` may not let pass; the inner one, of that user, is the box. Any other user has the
inner one alone.
"""

import json
import os
import shutil
import sys
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from functools import lru_cache
from pathlib import Path

from warren.agents.box.inside import Limits
from warren.isolation.archives import archive, descriptor_of
from warren.isolation.errors import CannotIsolate
from warren.isolation.syscalls import INTERNET, filter_program
from warren.isolation.users import as_nobody
from warren_schemas.isolation.agent_box import Box

REWARD = "/tmp/warren/reward"
MIB = 1 << 20
_ARCHIVE = "/run/warren.zip"
_MODULES = ("warren.agents.box.inside", "warren.agents.subreaper")
_FILES = ("/tmp", "/dev/shm")
_LINKS = ("/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32")
_SEEN = ("/etc/ld.so.cache", "/etc/alternatives")
_SEEN_OF_NETWORK = (
    "/etc/resolv.conf", "/etc/hosts", "/etc/nsswitch.conf", "/etc/ssl/certs", "/etc/ssl/openssl.cnf", "/etc/pki/tls",
    "/etc/pki/ca-trust",
)  # fmt: skip
_WRITTEN = {
    "/etc/passwd": "agent:x:1000:1000::/tmp:/bin/sh\n",
    "/etc/group": "agent:x:1000:\n",
}
_WRITTEN_OF_ENDPOINT = {"/etc/hosts": "127.0.0.1 localhost\n"}
_USUAL = ("PATH", "LANG", "LANGUAGE", "TZ", "TERM", "NO_COLOR")
_OWN = {"HOME": "/tmp", "TMPDIR": "/tmp"}


def variables() -> dict[str, str]:
    """What every program in a box finds in its environment: the usual ones of this process."""
    usual = {
        name: value
        for name, value in os.environ.items()
        if name in _USUAL or name.startswith("LC_")
    }
    return {**usual, **_OWN}


@contextmanager
def boxed(
    command: Sequence[str], box: Box, folder: str, endpoint: tuple[str, int]
) -> Generator[tuple[list[str], tuple[int, ...]]]:
    """A command line that runs this one in a box, and the descriptors that it inherits. Raises `CannotIsolate`."""
    bwrap = shutil.which("bwrap")
    if bwrap is None:
        raise CannotIsolate("bwrap is not installed (Debian: bubblewrap)")
    python, base = own_python()
    shown = seen(box, base, folder)
    listens = endpoint if box.network == "endpoint" else None
    limits = Limits(box.memory_mib * MIB, box.processes, REWARD, _FILES, listens)
    inside = [python, "-I", "-S", _ARCHIVE, json.dumps(asdict(limits)), *command]
    with _nameless(box) as (rules, contents):
        spaces = namespaces(box.network == "endpoint", user=1000)
        isolated = [bwrap, *spaces, *_file_system(box, shown, contents), "--chdir", folder]
        last = ["--cap-drop", "ALL", "--seccomp", str(rules), "--"]
        line = [*shown_to_nobody(bwrap, shown), *isolated, *last, *inside]
        yield line, (rules, *contents.values())


@contextmanager
def _nameless(box: Box) -> Generator[tuple[int, Mapping[str, int]]]:
    """Descriptors: of the filter of system calls, and of files by their paths in the box. Raises `CannotIsolate`."""
    rules = descriptor_of(filter_program(has_namespaces=True, families=INTERNET))
    contents = {path: descriptor_of(content) for path, content in _contents(box).items()}
    try:
        yield rules, contents
    finally:
        for descriptor in (rules, *contents.values()):
            os.close(descriptor)


def shown_to_nobody(bwrap: str, shown: list[str]) -> list[str]:
    """What goes before the box of one who is root: the outer namespaces, and giving up its rights."""
    user = as_nobody()
    if not user:
        return []
    devices = ("--dev-bind", "/dev", "/dev", "--bind", "/proc", "/proc")
    return [bwrap, "--die-with-parent", *devices, *folders(["/tmp"]), *shown, "--", *user]


def namespaces(has_own_network: bool, user: int) -> list[str]:
    network = ["--unshare-net"] if has_own_network else []
    return [
        *("--unshare-user", "--unshare-ipc", "--unshare-pid", "--unshare-uts", *network),
        *("--unshare-cgroup-try", "--disable-userns", "--die-with-parent", "--new-session"),
        *("--as-pid-1", "--uid", str(user), "--gid", str(user), "--hostname", "agent"),
    ]


def _file_system(box: Box, shown: list[str], contents: Mapping[str, int]) -> list[str]:
    size = str(box.memory_mib * MIB)
    written = [
        part
        for path, descriptor in contents.items()
        for part in ("--perms", "0444", "--ro-bind-data", str(descriptor), path)
    ]
    return [
        *("--proc", "/proc", "--dev", "/dev"),
        *("--size", size, "--perms", "1777", "--tmpfs", "/tmp"),
        *("--size", size, "--perms", "1777", "--tmpfs", "/dev/shm"),
        *("--dir", str(Path(REWARD).parent), *shown, *folders(["/etc", "/run"]), *written),
        *("--remount-ro", "/dev", "--remount-ro", "/"),
    ]


def own_python() -> tuple[str, str]:
    """On which process 1 runs, and where that lies: this one, unless this user may not run it, as one who gave up the
    rights of root."""
    own = os.path.realpath(sys.executable)
    if os.access(own, os.X_OK):
        return own, os.path.realpath(sys.base_prefix)
    return "/usr/bin/python3", "/usr"


def seen(box: Box, *more: str) -> list[str]:
    """What of this machine's files is shown, each where it is: that of the box, and more."""
    network = _SEEN_OF_NETWORK if box.network == "host" else ()
    optional = [path for path in (*_SEEN, *network) if os.path.exists(path)]
    paths = ["/usr", *optional, *box.readable, *more]
    bound = [part for path in paths for part in ("--ro-bind", path, path)]
    return [*folders(parent for path in paths for parent in _above(path)), *bound, *_links()]


def _links() -> Iterator[str]:
    """`/bin` and its like: links into `/usr`, or folders of their own."""
    for path in _LINKS:
        if os.path.islink(path):
            yield from ("--symlink", os.readlink(path), path)
        elif os.path.isdir(path):
            yield from ("--ro-bind", path, path)


def folders(paths: Iterable[str]) -> list[str]:
    """Made for all to pass: those that bubblewrap makes by itself are not."""
    return [part for path in dict.fromkeys(paths) for part in ("--perms", "0755", "--dir", path)]


def _above(path: str) -> list[str]:
    return [str(parent) for parent in reversed(Path(path).parents) if parent != Path("/")]


def _contents(box: Box) -> dict[str, bytes]:
    written = _WRITTEN | (_WRITTEN_OF_ENDPOINT if box.network == "endpoint" else {})
    return {path: text.encode() for path, text in written.items()} | {_ARCHIVE: _archive()}


@lru_cache(maxsize=1)
def _archive() -> bytes:
    root = Path(__file__).parents[2]
    modules = {name: root.joinpath(*name.split(".")[1:]).with_suffix(".py") for name in _MODULES}
    return archive("warren.agents.box.inside", modules)
