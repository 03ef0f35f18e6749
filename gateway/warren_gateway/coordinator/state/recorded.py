"""What stands in one message of a recording, wherever that is read from."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from warren_gateway.position import PLACES
from warren_schemas.datasets.exported import Exported
from warren_schemas.episode import EpisodeEnded


class Ending(NamedTuple):
    place: int
    """In the message."""
    item: EpisodeEnded
    is_decided: bool
    """Whether the run knew what became of it."""
    fate: str | None
    """That of an ending that counted; None of one that did not, or where nothing was decided."""
    group_size: int | None = None
    """Where it is told with the episode."""
    size_bytes: int = 0
    """What it takes in memory, roughly, where nothing else bounds how much of it is held."""


@dataclass(frozen=True, slots=True)
class Message:
    offset: int
    endings: tuple[Ending, ...] = ()

    @classmethod
    def of(
        cls, items: Sequence[EpisodeEnded], offset: int, counted: Mapping[int, str | None]
    ) -> "Message":
        """Of a stream, with what the run counted (see `counted`)."""
        placed = enumerate(items)
        return cls(
            offset, tuple(Ending(n, item, n in counted, counted.get(n)) for n, item in placed)
        )

    @classmethod
    def of_archive(cls, offset: int, rows: Sequence[Exported]) -> "Message":
        """What its run counted is all that was archived."""
        return cls(offset, tuple(Ending(r.offset % PLACES, r.item, True, r.fate) for r in rows))

    @classmethod
    def of_rows(cls, offset: int, rows: Sequence[Exported]) -> "Message":
        """Of a data set, whose rows have places of their own."""
        placed = enumerate(rows)
        endings = (Ending(n, r.item, True, r.fate, r.group_size, r.size_bytes) for n, r in placed)
        return cls(offset, tuple(endings))
