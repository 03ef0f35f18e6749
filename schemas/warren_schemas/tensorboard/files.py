"""TensorBoard's event files of one run, by TensorBoard's own writer and without torch.

They may lack points after a crash, torn off at the ends of files; `points` tells which are there, and
whoever writes a point that already exists leaves it as it is.
"""

# tensorboard has neither types nor stubs, and its messages are classes made at run time
# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUnknownParameterType=false
# pyright: reportAttributeAccessIssue=false

from collections.abc import Container, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tensorboard.backend.event_processing import event_file_loader
from tensorboard.compat.proto import event_pb2, summary_pb2
from tensorboard.summary.writer.event_file_writer import EventFileWriter

from warren_schemas.events import RunState
from warren_schemas.metrics.registry import tensorboard_tag
from warren_schemas.tensorboard import summaries
from warren_schemas.tensorboard.about import About

Point = tuple[float, int, str]
"""Time, step and tag: what makes a point of a curve this one and no other."""


@dataclass(frozen=True, slots=True)
class Record:
    """What a run told at one moment."""

    at_s: float
    step: int
    metrics: Mapping[str, float] = field(default_factory=dict[str, float])
    """By the tags of `warren_schemas.metrics`."""
    end: RunState | None = None
    """How the run ended, where this is its end."""

    @property
    def points(self) -> set[Point]:
        tags = [*map(tensorboard_tag, self.metrics), *([summaries.END_TAG] if self.end else [])]
        return {(self.at_s, self.step, tag) for tag in tags}


class TensorBoardFiles:
    """All methods block: call them in a thread."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._writer: EventFileWriter | None = None

    def points(self) -> set[Point]:
        """What can be read back from the files."""
        paths = self._folder.glob("events.out.tfevents.*")
        return {point for path in paths for point in _points(path)}

    def introduce(self, about: About, known: Iterable[Point]) -> None:
        """Write what is not known of the run's config, hyperparameters and layout; on disk on return."""
        tags = {tag for _, _, tag in known}
        self._add(about.created_s, 0, [v for v in summaries.header(about) if v.tag not in tags])
        self._flush()

    def write(self, records: Iterable[Record], known: Container[Point]) -> None:
        """Add the records' points that are not known; on return they are on disk."""
        for record in records:
            values = [
                value
                for value in _values(record)
                if (record.at_s, record.step, value.tag) not in known
            ]
            self._add(record.at_s, record.step, values)
        self._flush()

    def close(self) -> None:
        if self._writer is not None:
            self._writer.close()
            self._writer = None

    def _add(self, at_s: float, step: int, values: list[summary_pb2.Summary.Value]) -> None:
        if not values:
            return
        if self._writer is None:
            self._writer = EventFileWriter(str(self._folder))
        summary = summary_pb2.Summary(value=values)
        self._writer.add_event(event_pb2.Event(wall_time=at_s, step=step, summary=summary))

    def _flush(self) -> None:
        if self._writer is not None:
            self._writer.flush()


def _values(record: Record) -> list[summary_pb2.Summary.Value]:
    values = [
        summary_pb2.Summary.Value(tag=tensorboard_tag(tag), simple_value=value)
        for tag, value in record.metrics.items()
    ]
    return values + ([summaries.end(record.end, record.at_s)] if record.end else [])


def _points(path: Path) -> Iterator[Point]:
    for event in event_file_loader.LegacyEventFileLoader(str(path)).Load():
        for value in event.summary.value:
            yield event.wall_time, event.step, value.tag
