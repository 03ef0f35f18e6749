"""Whether a class may have the box that it asks for, and whether boxes work on this machine."""

import os
import subprocess
from contextlib import closing
from pathlib import Path
from socket import AF_UNIX, SOCK_SEQPACKET, socketpair

from warren.agents.box.bubblewrap import boxed, variables
from warren.environment import ConfigError
from warren.isolation.errors import CannotIsolate
from warren.settings import warren_home
from warren_schemas.isolation.agent_box import Box

_TRIAL_S = 30.0
_PORT = 1024
"""Free in a network of its own."""
_TRIED = "/usr"


def granted(asked: Box | None, most: Box | None) -> Box | None:
    """The box of a program whose class asks for this one, where there may be so much; None: it has none.
    Raises `ConfigError`."""
    if asked is None or most is None:
        return asked or most
    if more := asked.beyond(most):
        raise ConfigError(
            f"box: more than this env worker's operator allows its agents: {', '.join(more)}"
        )
    return asked


def shown_folder(folder: str | None) -> str:
    """The program's own folder: this one, or that of this process. Raises `ConfigError` for one that would show the
    program what it must not see."""
    path = Path(os.path.realpath(folder or os.getcwd()))
    if warren_home().resolve().is_relative_to(path):
        raise ConfigError(
            f"box: a program sees its own folder, and {path} holds Warren's keys; give the agent a folder of its own"
            " (`folder`, or start the env worker in it)"
        )
    return str(path)


def require_boxes(box: Box) -> None:
    """Raises `CannotIsolate` where such a box does not work, with what is missing."""
    ours, theirs = socketpair(AF_UNIX, SOCK_SEQPACKET)
    with closing(ours), closing(theirs), boxed(("true",), box, _TRIED, ("127.0.0.1", _PORT)) as it:
        line, descriptors = it
        try:
            done = subprocess.run(
                line,
                env=variables(),
                stdin=theirs.fileno(),
                capture_output=True,
                pass_fds=descriptors,
                timeout=_TRIAL_S,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise CannotIsolate(f"no box works here: {error}") from error
    if done.returncode != 0:
        words = " ".join(done.stderr.decode(errors="replace").split())
        raise CannotIsolate(
            f"no box works here: {words or f'exit code {done.returncode}'} (a box needs bubblewrap, and a"
            " kernel and container that let it make user namespaces)"
        )
