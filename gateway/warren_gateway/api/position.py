"""Where a reader of a run's events is: the `id` of a server-sent event.

A message of the stream holds up to `MAX_ITEMS` events, so a position is the message's offset times
`MAX_ITEMS` plus the event's place in it: one rising integer for each event.
"""

from dataclasses import dataclass

from warren_schemas.wire import MAX_ITEMS


@dataclass(frozen=True, slots=True, order=True)
class Position:
    offset: int
    place: int = 0

    @classmethod
    def parse(cls, text: str) -> "Position":
        """Raises `ValueError` for what is not a whole number of at least 0."""
        if not (text.isascii() and text.isdigit() and len(text) < 20):
            raise ValueError(f"{text[:40]!r} is not the id of an event")
        return cls(*divmod(int(text), MAX_ITEMS))

    def __str__(self) -> str:
        return str(self.offset * MAX_ITEMS + self.place)
