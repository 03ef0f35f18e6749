"""TensorBoard's event files of one run, by TensorBoard's own writer and without torch.

They may lack points after a crash, torn off at the ends of files; `points` tells which are there.
"""

# tensorboard has neither types nor stubs, and its messages are classes made at run time
# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUnknownParameterType=false
# pyright: reportAttributeAccessIssue=false

from collections.abc import Container, Iterable, Iterator
from pathlib import Path

from tensorboard.backend.event_processing import event_file_loader
from tensorboard.compat.proto import event_pb2, summary_pb2
from tensorboard.summary.writer.event_file_writer import EventFileWriter

from warren_gateway.metrics.journal import Entry

Point = tuple[float, int, str]
"""Time, step and tag: what makes a point of a curve this one and no other."""


class TensorBoardFiles:
    """All methods block: call them in a thread."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._writer: EventFileWriter | None = None

    def points(self) -> set[Point]:
        """What can be read back from the files."""
        paths = self._folder.glob("events.out.tfevents.*")
        return {point for path in paths for point in _points(path)}

    def write(self, entries: Iterable[Entry], known: Container[Point]) -> None:
        """Add the entries' points that are not known; on return they are on disk."""
        for entry in entries:
            tags = [tag for tag in entry.metrics if (entry.at_s, entry.step, tag) not in known]
            if tags:
                self._open().add_event(_event(entry, tags))
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


def _points(path: Path) -> Iterator[Point]:
    for event in event_file_loader.LegacyEventFileLoader(str(path)).Load():
        for value in event.summary.value:
            yield event.wall_time, event.step, value.tag
