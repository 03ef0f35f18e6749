"""Credentials of this process, where other processes could read them: in `/proc`.

Every user can read a process's command line, and any process of the same user, code of environments
among them, the variables that it was started with. Both lie in the process's own memory, and can be
blanked there; `sys.argv` and `os.environ` are copies, and keep them.
"""

import contextlib
import ctypes
import os
import re
from collections.abc import Callable
from pathlib import Path

CREDENTIALS = (
    "WARREN_BROKER_URL", "WARREN_STORE_URL", "WARREN_CHECKPOINT_URL", "WARREN_ARCHIVE_URL",
    "WARREN_API_KEY", "WARREN_SANDBOX_KEY", "WARREN_SECRET_",
)  # fmt: skip
"""Variables that begin like this stay with the process that was started with them."""

_VARIABLE = re.compile(rb"(?:(?<=\0)|\A)(?:%b)[^=\0]*=([^\0]*)" % "|".join(CREDENTIALS).encode())
_ARGUMENT = re.compile(
    rb"--api-key[=\0]([^\0]*)"
    rb"|://([^@/\0]*)@"
    rb"|[?&][^=&\0]*(?:password|secret|token|key|signature)[^=&\0]*=([^&\0]*)",
    re.IGNORECASE,
)
_BOUNDS = slice(45, 49)
"""Of /proc/self/stat, after the name: where arguments and variables begin and end."""


def harmless_variables() -> dict[str, str]:
    """Those of this process that any child may have."""
    return {name: value for name, value in os.environ.items() if not name.startswith(CREDENTIALS)}


def hide_credentials() -> None:
    """Blank them in what `/proc` shows of this process from now on."""
    with contextlib.suppress(OSError):
        fields = Path("/proc/self/stat").read_text().rpartition(")")[2].split()
        arguments, arguments_end, variables, variables_end = map(int, fields[_BOUNDS])
        _blank(arguments, arguments_end, _ARGUMENT, b"*")
        _blank(variables, variables_end, _VARIABLE, b"\0")


def _blank(start: int, end: int, credential: re.Pattern[bytes], filler: bytes) -> None:
    before = ctypes.string_at(start, end - start)
    ctypes.memmove(start, credential.sub(_filled(filler), before), len(before))


def _filled(filler: bytes) -> Callable[[re.Match[bytes]], bytes]:
    def fill(found: re.Match[bytes]) -> bytes:
        assert found.lastindex is not None
        begin, end = (place - found.start() for place in found.span(found.lastindex))
        whole = found.group()
        return whole[:begin] + filler * (end - begin) + whole[end:]

    return fill
