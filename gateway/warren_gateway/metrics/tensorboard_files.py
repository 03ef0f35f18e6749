"""TensorBoard's event files of one run, by TensorBoard's own writer and without torch.

Invariant: the files of a folder, whatever was torn off at their ends, hold a first part of the
points of the journal. So whoever counts the points knows which one comes next.
"""

# tensorboard has neither types nor stubs, and its messages are classes made at run time
# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUnknownParameterType=false
# pyright: reportAttributeAccessIssue=false

from collections.abc import Iterable
from pathlib import Path

from tensorboard.backend.event_processing import event_file_loader
from tensorboard.compat.proto import event_pb2, summary_pb2
from tensorboard.summary.writer.event_file_writer import EventFileWriter

from warren_gateway.metrics.journal import Entry


class TensorBoardFiles:
    """All methods block: call them in a thread."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._writer: EventFileWriter | None = None

    def n_points(self) -> int:
        """Points that can be read back from the files."""
        return sum(_count(path) for path in self._folder.glob("events.out.tfevents.*"))

    def write(self, entries: Iterable[Entry], skip: int = 0) -> None:
        """Add the points of the entries, without the first `skip`; on return they are on disk."""
        for entry in entries:
            tags = list(entry.metrics)
            kept, skip = tags[skip:], max(0, skip - len(tags))
            if kept:
                self._open().add_event(_event(entry, kept))
        if self._writer is not None:
            self._writer.flush()

    def close(self) -> None:
        if self._writer is not None:
            self._writer.close()
            self._writer = None

    def _open(self) -> EventFileWriter:
        if self._writer is None:
            self._writer = EventFileWriter(str(self._folder))
        return self._writer


def _event(entry: Entry, tags: list[str]) -> event_pb2.Event:
    values = [summary_pb2.Summary.Value(tag=tag, simple_value=entry.metrics[tag]) for tag in tags]
    summary = summary_pb2.Summary(value=values)
    return event_pb2.Event(wall_time=entry.at_s, step=entry.step, summary=summary)


def _count(path: Path) -> int:
    events = event_file_loader.LegacyEventFileLoader(str(path)).Load()
    return sum(len(event.summary.value) for event in events)
