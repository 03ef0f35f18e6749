"""`metrics.jsonl`: one line for each event with numbers, and where in the stream it stood.

It is the truth about what was recorded: the position to go on from is its last line.

Invariants: lines are in the order of the stream; a line that a crash tore apart is cut off when the
file is opened, and its event is read again.
"""

from collections.abc import Iterable
from pathlib import Path

from warren_gateway.recent import Recent
from warren_schemas.base import Frozen
from warren_schemas.events import RunState

JOURNAL = "metrics.jsonl"
_LAST = b'"is_last":true'


class Entry(Frozen):
    """One event: where it stood (`offset` of the message, `place` in it), and its points."""

    offset: int
    place: int
    id: str
    at_s: float
    """Unix time of the event."""
    kind: str
    step: int
    metrics: dict[str, float]
    """Tag to value, at this step."""
    state: RunState | None = None
    """The final state of a run that has ended."""
    is_last: bool = False
    """The run has ended; nothing comes after it."""


class Journal:
    """All methods block: call them in a thread."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._seen = Recent()
        self.last: Entry | None = None

    def load(self) -> list[Entry]:
        """What was written before; a torn line at the end is cut off."""
        self._path.parent.mkdir(parents=True, exist_ok=True)
        content = self._path.read_bytes() if self._path.exists() else b""
        whole, _, torn = content.rpartition(b"\n")
        entries = [Entry.model_validate_json(line) for line in whole.splitlines()]
        with self._path.open("ab") as file:
            file.truncate(len(content) - len(torn))
        for entry in entries:
            self._note(entry)
        return entries

    def append(self, entries: Iterable[Entry]) -> list[Entry]:
        """Write those that are new; returns them."""
        new = [entry for entry in entries if self._is_new(entry)]
        lines = "".join(f"{entry.model_dump_json()}\n" for entry in new)
        with self._path.open("ab") as file:
            file.write(lines.encode())
        for entry in new:
            self._note(entry)
        return new

    def _is_new(self, entry: Entry) -> bool:
        last = self.last
        is_behind = last is None or (entry.offset, entry.place) > (last.offset, last.place)
        return is_behind and entry.id not in self._seen

    def _note(self, entry: Entry) -> None:
        self._seen.add(entry.id)
        self.last = entry


def is_complete(path: Path) -> bool:
    """Whether the journal holds the end of its run; reads the last line only."""
    with path.open("rb") as file:
        file.seek(max(0, path.stat().st_size - 512))
        tail = file.read()
    return tail.endswith(b"\n") and _LAST in tail.splitlines()[-1]
