"""RabbitMQ 3.10 stops dead-lettering when a home queue ends as the node boots: then whoever runs it restarts the node.

docs/operations.md tells so. A storm boots its broker often, and what it checks is Warren.
"""

import re
from pathlib import Path

N_KEPT = 2000
"""Characters before what is new, as a look may fall between the lines of one message."""

_BOOTS = "Running boot step rabbit_fifo_dlx_sup"
_STOPS = re.compile(
    r"supervisor: \{local,rabbit_fifo_dlx_sup\}\n.*errorContext: shutdown\n"
    r".*reason: reached_max_restart_intensity"
)


def has_stopped(log: str) -> bool:
    """Whether the node stopped dead-lettering after its last boot."""
    return _STOPS.search(log, log.rfind(_BOOTS) + 1) is not None


class NodeLog:
    """A node's log, of which each look reads what is new: a storm's has a hundred megabytes."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._n_read = 0
        self._last = ""

    def tells_of_stop(self) -> bool:
        """Whether the node has stopped dead-lettering since the last look."""
        if not self._path.exists():
            return False
        with self._path.open("rb") as file:
            file.seek(self._n_read)
            new = file.read()
        self._n_read += len(new)
        text = self._last + new.decode(errors="replace")
        is_stopped = has_stopped(text)
        self._last = "" if is_stopped else text[-N_KEPT:]
        return is_stopped
