"""A user that nobody else has, for who runs as root.

Invariant: limits on the processes of a user are those of one program, and no file of the machine is its own.
"""

import itertools
import os
from pathlib import Path

_SHARED_UIDS = 65_536
_UIDS_EACH = 64
_LARGEST_UID = 1 << 30
"""bwrap takes larger ones for negative numbers."""
_numbers = itertools.count()


def as_nobody() -> list[str]:
    """What a command starts with so that it does not run as root; nothing if we are not root."""
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
