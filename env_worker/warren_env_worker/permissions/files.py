"""Files below a root.

Invariants: what is opened lies below the root, whatever links lead there and whoever changes them
meanwhile; nothing else is opened than regular files; and whoever asks for a file that may not be had
is told the same as for one that is not there.
"""

import contextlib
import os
import stat
from pathlib import Path
from typing import BinaryIO


def open_below(root: str, path: str) -> BinaryIO | None:
    """The file, to be closed by the caller; None if there is none that may be had."""
    try:
        top = os.path.realpath(root, strict=True)
        real = os.path.realpath(os.path.join(top, path), strict=True)
        if not _is_below(real, top):
            return None
        descriptor = os.open(real, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    except (OSError, ValueError):  # a name may hold a NUL
        return None
    with contextlib.ExitStack() as stack:
        stack.callback(os.close, descriptor)
        opened = os.readlink(f"/proc/self/fd/{descriptor}")  # it may have changed since we looked
        if not _is_below(opened, top) or not stat.S_ISREG(os.fstat(descriptor).st_mode):
            return None
        os.set_blocking(descriptor, True)
        stack.pop_all()
    return os.fdopen(descriptor, "rb")


def folder_below(root: str, path: str) -> str | None:
    """The folder's real path; None if there is none that may be had."""
    try:
        top = os.path.realpath(root, strict=True)
        real = os.path.realpath(os.path.join(top, path), strict=True)
    except (OSError, ValueError):  # a name may hold a NUL
        return None
    return real if _is_below(real, top) and os.path.isdir(real) else None


def _is_below(path: str, top: str) -> bool:
    return Path(path).is_relative_to(top) and path != top
